// The file systems of the operating system, through pread, pwrite, fsync and flock.
#pragma once

#include <memory>

#include "shoal/io/storage.h"

namespace shoal::io {

// Holds no state besides what its open files hold. Thread-safe.
std::unique_ptr<Storage> MakePosixStorage();

}  // namespace shoal::io
