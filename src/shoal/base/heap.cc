#include "shoal/base/heap.h"

#include <malloc.h>

namespace shoal {

void ReleaseFreeHeap() { malloc_trim(0); }

}  // namespace shoal
