#include "shoal/base/fork.h"

#include <unistd.h>

namespace shoal {

ProcessStamp::ProcessStamp() : pid_(getpid()) {}

bool ProcessStamp::IsCurrent() const { return pid_ == getpid(); }

}  // namespace shoal
