// ReleaseFreeHeap: gives memory that the C heap holds but nobody uses back to the system.
//
// glibc keeps freed blocks below its (growing) mmap threshold in the heap, where a later,
// longer-lived block can pin them: after an engine replaced a model's parameters that was 1.7x the
// model. Costs milliseconds: for construction, never for a step. Thread-safe.
#pragma once

namespace shoal {

void ReleaseFreeHeap();

}  // namespace shoal
