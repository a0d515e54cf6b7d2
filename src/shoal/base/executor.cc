#include "shoal/base/executor.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>  // pthread_sigmask

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "shoal/base/check.h"
#include "shoal/base/fork.h"

namespace shoal {
namespace {

// The cut of [Note: chunks].
struct Chunks {
  int64_t begin;
  int64_t end;
  int64_t grain;
  int64_t num_grains;
  int64_t count;

  // Begin of chunk `index`; End of the last chunk for index == count.
  int64_t BeginOf(int64_t index) const {
    const int64_t base = num_grains / count;
    const int64_t longer = num_grains % count;  // the first `longer` chunks have one grain more
    const int64_t grains = index * base + std::min(index, longer);
    return grains >= num_grains ? end : begin + grains * grain;
  }
};

Chunks MakeChunks(int64_t begin, int64_t end, int64_t grain, int num_threads) {
  const int64_t size = end - begin;
  const int64_t num_grains = size / grain + (size % grain != 0 ? 1 : 0);
  return Chunks{begin, end, grain, num_grains, std::min<int64_t>(num_threads, num_grains)};
}

// Whether this thread is inside a body: then loops run inline.
bool& InsideBody() {
  static thread_local bool inside = false;
  return inside;
}

// Runs one chunk; noexcept makes an exception that leaves the body end the process here.
void RunChunk(const std::function<void(int64_t, int64_t)>& body, const Chunks& chunks,
              int64_t index) noexcept {
  const bool outer = InsideBody();
  InsideBody() = true;
  body(chunks.BeginOf(index), chunks.BeginOf(index + 1));
  InsideBody() = outer;
}

}  // namespace

int NumAvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// One loop at a time; chunks are claimed under the mutex (there are at most num_threads of them).
class Executor::Pool {
 public:
  explicit Pool(int num_workers) : num_workers_(num_workers) {}

  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  bool IsOfThisProcess() const { return stamp_.IsCurrent(); }

  void Run(const Chunks& chunks, const std::function<void(int64_t, int64_t)>& body) {
    const std::lock_guard<std::mutex> turn(turn_);
    StartWorkers();
    std::unique_lock<std::mutex> lock(mutex_);
    chunks_ = &chunks;
    body_ = &body;
    next_ = 0;
    unfinished_ = chunks.count;
    for (int64_t i = 1; i < chunks.count; ++i) work_.notify_one();
    while (HasWork()) RunNext(lock);
    done_.wait(lock, [this] { return unfinished_ == 0; });
    chunks_ = nullptr;
    body_ = nullptr;
  }

 private:
  bool HasWork() const { return chunks_ != nullptr && next_ < chunks_->count; }

  // Claims a chunk and runs it with the mutex released. @pre HasWork(), `lock` holds mutex_.
  void RunNext(std::unique_lock<std::mutex>& lock) {
    const Chunks& chunks = *chunks_;
    const std::function<void(int64_t, int64_t)>& body = *body_;
    const int64_t index = next_++;
    lock.unlock();
    RunChunk(body, chunks, index);
    lock.lock();
    if (--unfinished_ == 0) done_.notify_one();
  }

  void WorkerMain() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return stopping_ || HasWork(); });
      if (stopping_) return;
      RunNext(lock);
    }
  }

  // Starts what is missing. Workers take no signals: those belong to the program's own threads.
  void StartWorkers() {
    if (started_) return;
    started_ = true;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      workers_.reserve(static_cast<size_t>(num_workers_));
      for (int i = 0; i < num_workers_; ++i) {
        workers_.emplace_back([this] { WorkerMain(); });
        pthread_setname_np(workers_.back().native_handle(), "shoal-worker");
      }
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // The system refuses more threads; the caller and the workers that exist claim all chunks.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  const ProcessStamp stamp_;
  const int num_workers_;
  std::mutex turn_;  // held by the caller whose loop runs; also guards started_ and workers_
  bool started_ = false;
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::condition_variable done_;
  const Chunks* chunks_ = nullptr;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t next_ = 0;        // first unclaimed chunk
  int64_t unfinished_ = 0;  // chunks claimed or unclaimed that have not returned
  bool stopping_ = false;
};

Executor::Executor(int num_threads) : num_threads_(num_threads) { SHOAL_CHECK(num_threads >= 1); }

Executor::~Executor() {
  Pool* pool = pool_.load(std::memory_order_acquire);
  // An inherited pool is left alone: its threads do not exist here and its mutexes may be locked.
  if (pool != nullptr && pool->IsOfThisProcess()) delete pool;
}

Executor::Pool& Executor::PoolOfThisProcess() {
  Pool* pool = pool_.load(std::memory_order_acquire);
  if (pool != nullptr && pool->IsOfThisProcess()) return *pool;
  auto* fresh = new Pool(num_threads_ - 1);
  if (pool_.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread of this process was faster; ours has no threads yet
  return *pool;
}

void Executor::ParallelFor(int64_t begin, int64_t end, int64_t grain,
                           const std::function<void(int64_t, int64_t)>& body) {
  SHOAL_CHECK(begin <= end && grain >= 1);
  if (begin == end) return;
  const Chunks chunks = MakeChunks(begin, end, grain, num_threads_);
  if (chunks.count == 1 || InsideBody()) {
    for (int64_t i = 0; i < chunks.count; ++i) RunChunk(body, chunks, i);
    return;
  }
  PoolOfThisProcess().Run(chunks, body);
}

}  // namespace shoal
