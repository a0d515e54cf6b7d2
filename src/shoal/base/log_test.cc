#include "shoal/base/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace shoal {
namespace {

// Collects lines while it lives.
class Collector {
 public:
  Collector() {
    SetLogSink([this](LogLevel level, std::string_view room, std::string_view message) {
      lines_.push_back(std::string(LogLevelName(level)) + "/" + std::string(room) + "/" +
                       std::string(message));
    });
  }
  ~Collector() { SetLogSink({}); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

TEST(LogTest, TheSinkGetsEveryLevelRoomAndMessage) {
  const Collector collector;
  Log(LogLevel::kDebug, "io", "a");
  Log(LogLevel::kError, "ckpt", "b {}");
  EXPECT_EQ(collector.lines(), (std::vector<std::string>{"debug/io/a", "error/ckpt/b {}"}));
}

TEST(LogTest, CallsOfSeveralThreadsTakeTurns) {
  const Collector collector;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 100; ++line) Log(LogLevel::kInfo, "base", "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(collector.lines().size(), 400U);
}

TEST(LogTest, AForkedChildLogsToTheSameSink) {
  const Collector collector;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Log(LogLevel::kInfo, "base", "child");
    _exit(collector.lines().size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(LogLevelTest, NamesParseBack) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    EXPECT_EQ(ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("WARNING"), std::nullopt);
}

// What the default sink wrote for `log` with these settings. A child, because it reads them once.
std::string DefaultOutput(const char* rank, const char* level) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fds[1], STDERR_FILENO);
    setenv("RANK", rank, 1);
    setenv("SHOAL_LOG_LEVEL", level, 1);
    Log(LogLevel::kDebug, "io", "debugging");
    Log(LogLevel::kInfo, "plan", "info");
    Log(LogLevel::kWarning, "ckpt", "careful");
    _exit(0);
  }
  close(fds[1]);
  std::string text;
  char buffer[256];
  for (ssize_t count; (count = read(fds[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  close(fds[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(LogTest, TheDefaultSinkWritesRankLevelRoomFromTheLowestLevelOn) {
  EXPECT_EQ(DefaultOutput("3", ""), "[shoal r3 W ckpt] careful\n");
  EXPECT_EQ(DefaultOutput("", "info"), "[shoal r? I plan] info\n[shoal r? W ckpt] careful\n");
  EXPECT_EQ(DefaultOutput("0", "debug"),
            "[shoal r0 D io] debugging\n[shoal r0 I plan] info\n[shoal r0 W ckpt] careful\n");
  EXPECT_EQ(DefaultOutput("0", "error"), "");
}

TEST(EveryNTest, LetsTheFirstAndEveryNthThrough) {
  EveryN every(3);
  std::vector<bool> passed;
  for (int i = 0; i < 7; ++i) passed.push_back(every.ShouldLog());
  EXPECT_EQ(passed, (std::vector<bool>{true, false, false, true, false, false, true}));
  EXPECT_EQ(every.count(), 7);
}

TEST(EveryNTest, ZeroMeansOnce) {
  EveryN once(0);
  EXPECT_TRUE(once.ShouldLog());
  EXPECT_FALSE(once.ShouldLog());
  EXPECT_FALSE(once.ShouldLog());
}

}  // namespace
}  // namespace shoal
