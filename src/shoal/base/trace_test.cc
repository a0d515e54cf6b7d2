#include "shoal/base/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace shoal {
namespace {

class Recorder : public TraceHook {
 public:
  void Begin(std::string_view name) override { events.push_back("+" + std::string(name)); }
  void End() override { events.emplace_back("-"); }

  std::vector<std::string> events;
};

TEST(TraceTest, WithoutAHookNothingHappens) {
  ASSERT_EQ(SetTraceHook(nullptr), nullptr);
  const TraceRange range("unseen");
}

TEST(TraceTest, RangesNest) {
  Recorder recorder;
  SetTraceHook(&recorder);
  {
    const TraceRange outer("outer");
    const TraceRange inner("inner");
  }
  EXPECT_EQ(SetTraceHook(nullptr), &recorder);
  EXPECT_EQ(recorder.events, (std::vector<std::string>{"+outer", "+inner", "-", "-"}));
}

TEST(TraceTest, ARangeEndsAtTheHookThatSawItBegin) {
  Recorder first;
  Recorder second;
  SetTraceHook(&first);
  {
    const TraceRange range("crossing");
    SetTraceHook(&second);
  }
  SetTraceHook(nullptr);
  EXPECT_EQ(first.events, (std::vector<std::string>{"+crossing", "-"}));
  EXPECT_TRUE(second.events.empty());
}

}  // namespace
}  // namespace shoal
