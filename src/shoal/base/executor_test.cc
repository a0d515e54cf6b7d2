#include "shoal/base/executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace shoal {
namespace {

using Cut = std::vector<std::pair<int64_t, int64_t>>;

Cut SortedCut(Executor& executor, int64_t begin, int64_t end, int64_t grain) {
  std::mutex mutex;
  Cut cut;
  executor.ParallelFor(begin, end, grain, [&](int64_t chunk_begin, int64_t chunk_end) {
    const std::lock_guard<std::mutex> lock(mutex);
    cut.emplace_back(chunk_begin, chunk_end);
  });
  std::sort(cut.begin(), cut.end());
  return cut;
}

int64_t NumThreadsOfProcess() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(ExecutorTest, ChunksAreWholeGrainsEqualUpToOneAndCoverTheRange) {
  Executor executor(3);
  EXPECT_EQ(SortedCut(executor, 0, 9, 1), (Cut{{0, 3}, {3, 6}, {6, 9}}));
  EXPECT_EQ(SortedCut(executor, 0, 10, 1), (Cut{{0, 4}, {4, 7}, {7, 10}}));
  EXPECT_EQ(SortedCut(executor, 5, 27, 4), (Cut{{5, 13}, {13, 21}, {21, 27}}));
  EXPECT_EQ(SortedCut(executor, -2, 5, 4), (Cut{{-2, 2}, {2, 5}}));
  EXPECT_EQ(SortedCut(executor, 0, 3, 100), (Cut{{0, 3}}));
}

TEST(ExecutorTest, AnEmptyRangeCallsNothing) {
  Executor executor(2);
  EXPECT_EQ(SortedCut(executor, 7, 7, 1), Cut{});
}

TEST(ExecutorTest, HugeRangesDoNotOverflow) {
  Executor executor(4);
  const int64_t size = std::numeric_limits<int64_t>::max();
  for (const int64_t grain : {int64_t{1}, int64_t{1000}, size}) {
    const Cut cut = SortedCut(executor, 0, size, grain);
    int64_t next = 0;
    for (const auto& [chunk_begin, chunk_end] : cut) {
      EXPECT_EQ(chunk_begin, next);
      EXPECT_GT(chunk_end, chunk_begin);
      next = chunk_end;
    }
    EXPECT_EQ(next, size);
  }
}

TEST(ExecutorTest, EveryElementIsVisitedOnceOverManyLoops) {
  Executor executor(4);
  std::vector<int> visits(1013, 0);
  for (int loop = 0; loop < 200; ++loop) {
    executor.ParallelFor(0, static_cast<int64_t>(visits.size()), 1, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) ++visits[static_cast<size_t>(i)];
    });
  }
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 200; }));
}

TEST(ExecutorTest, NoThreadStartsBeforeALoopNeedsOneAndAllEndWithIt) {
  const int64_t before = NumThreadsOfProcess();
  {
    Executor executor(3);
    executor.ParallelFor(0, 10, 10, [](int64_t, int64_t) {});
    EXPECT_EQ(NumThreadsOfProcess(), before);
    executor.ParallelFor(0, 10, 1, [](int64_t, int64_t) {});
    EXPECT_EQ(NumThreadsOfProcess(), before + 2);
  }
  EXPECT_EQ(NumThreadsOfProcess(), before);
}

TEST(ExecutorTest, TheCallerTakesPartWhereThreadsAreMissing) {
  Executor executor(1);
  std::set<std::thread::id> ids;
  executor.ParallelFor(0, 100, 1,
                       [&](int64_t, int64_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(ExecutorTest, WorkersReallyRunAtTheSameTime) {
  Executor executor(2);
  std::atomic<int> arrived{0};
  executor.ParallelFor(0, 2, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // hangs unless two threads run the two chunks
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ExecutorTest, NestedLoopsRunOnTheCallingThreadWithTheSameCut) {
  Executor executor(2);
  std::mutex mutex;
  std::vector<Cut> cuts;
  executor.ParallelFor(0, 2, 1, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    Cut cut;
    executor.ParallelFor(0, 8, 1, [&](int64_t b, int64_t e) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      cut.emplace_back(b, e);
    });
    const std::lock_guard<std::mutex> lock(mutex);
    cuts.push_back(cut);
  });
  EXPECT_EQ(cuts, (std::vector<Cut>{{{0, 4}, {4, 8}}, {{0, 4}, {4, 8}}}));
}

TEST(ExecutorTest, SeveralCallersTakeTurns) {
  Executor executor(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 50; ++loop) {
        executor.ParallelFor(0, 90, 1, [&](int64_t b, int64_t e) { sum += e - b; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 90);
}

#if !defined(__SANITIZE_THREAD__)  // TSan refuses threads in a child of a process with threads
TEST(ExecutorTest, AForkedChildStartsWorkersOfItsOwn) {
  Executor executor(2);
  executor.ParallelFor(0, 2, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    std::atomic<int> arrived{0};
    executor.ParallelFor(0, 2, 1, [&](int64_t, int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    executor.~Executor();  // must not wait for the parent's threads
    _exit(arrived == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  EXPECT_EQ(SortedCut(executor, 0, 2, 1), (Cut{{0, 1}, {1, 2}}));  // the parent goes on
}

TEST(ExecutorTest, AChildForkedDuringALoopIsNotBlockedByIt) {
  Executor executor(2);
  std::atomic<bool> forked{false};
  std::atomic<bool> inside{false};
  std::thread caller([&] {
    executor.ParallelFor(0, 2, 1, [&](int64_t, int64_t) {
      inside = true;
      while (!forked) std::this_thread::yield();
    });
  });
  while (!inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int64_t> sum{0};
    executor.ParallelFor(0, 10, 1, [&](int64_t b, int64_t e) { sum += e - b; });
    _exit(sum == 10 ? 0 : 1);
  }
  forked = true;
  caller.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}
#endif

TEST(ExecutorDeathTest, AThrowingBodyEndsTheProcess) {
  EXPECT_DEATH(
      {
        Executor executor(1);
        executor.ParallelFor(0, 1, 1, [](int64_t, int64_t) { throw std::runtime_error("boom"); });
      },
      "boom");
}

TEST(ExecutorDeathTest, BadArgumentsAreBugs) {
  EXPECT_DEATH(Executor(0), "num_threads >= 1");
  Executor executor(1);
  EXPECT_DEATH(executor.ParallelFor(0, 1, 0, [](int64_t, int64_t) {}), "grain >= 1");
}

TEST(NumAvailableCpusTest, IsAtLeastOne) { EXPECT_GE(NumAvailableCpus(), 1); }

}  // namespace
}  // namespace shoal
