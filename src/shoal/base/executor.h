// Executor: the threads of one engine, for loops over bytes and elements on the CPU (optimizer,
// casts, checksums).
//
// Goals: results that do not depend on timing; no thread before one is needed; usable after fork.
// Non-goals: task graphs, futures, work of unequal size. Rejected: OpenMP (its threads break in
// forked children and belong to the process, not to an engine), std::async (a thread per call).
//
// [Note: chunks] The range is cut into at most num_threads() chunks, each a whole number of
// `grain`s (the last one may be shorter), equal up to one grain. The cut depends on the arguments
// and num_threads() alone. Which thread runs a chunk is decided at run time, so a thread that wakes
// late costs nothing.
//
// Thread-safety: ParallelFor may be called from several threads; calls that need workers take
// turns. A call from inside a body (of any Executor) runs on the calling thread, so nesting cannot
// deadlock. Fork: a forked child starts workers of its own at its first use; it never touches the
// parent's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace shoal {

// Processors that this process may run on (its affinity mask), at least 1.
int NumAvailableCpus();

class Executor {
 public:
  // Starts no thread. The calling thread counts: num_threads - 1 workers serve it. @pre num_threads
  // >= 1.
  explicit Executor(int num_threads);

  // Joins the workers that this process started. @pre no ParallelFor is running.
  ~Executor();

  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Calls body(chunk_begin, chunk_end) for the chunks of [begin, end) (see [Note: chunks]) and
  // returns when all have returned. The calling thread takes part; one chunk runs without any other
  // thread. An empty range calls nothing. Where the system refuses threads, those that exist do all
  // the work. A body must not throw: an exception that leaves it ends the process.
  // @pre begin <= end, grain >= 1, end - begin fits int64_t.
  void ParallelFor(int64_t begin, int64_t end, int64_t grain,
                   const std::function<void(int64_t, int64_t)>& body);

  int num_threads() const { return num_threads_; }

 private:
  class Pool;  // the workers of one process

  // The pool of this process, made now if there is none yet.
  Pool& PoolOfThisProcess();

  const int num_threads_;
  std::atomic<Pool*> pool_{nullptr};
};

}  // namespace shoal
