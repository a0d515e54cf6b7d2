// ProcessStamp: tells whether an object was made by this process or inherited through fork().
//
// A forked child inherits memory, not threads: mutexes may be locked for ever, threads are gone,
// connections belong to the parent. Objects that own such things keep a stamp, look at it where
// they are entered, and leave what they inherited alone. Rejected: pthread_atfork handlers, which
// are process-wide and cannot be removed.
//
// Thread-safety: a value; costs one getpid().
#pragma once

#include <sys/types.h>

namespace shoal {

class ProcessStamp {
 public:
  // Stamps with the calling process.
  ProcessStamp();

  // False in a process forked after the stamp was made.
  bool IsCurrent() const;

 private:
  pid_t pid_;
};

}  // namespace shoal
