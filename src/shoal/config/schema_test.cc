#include "shoal/config/schema.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/config/check_internal.h"
#include "shoal/config/json_internal.h"
#include "shoal/config/suggest_internal.h"

namespace shoal::config {
namespace {

std::string_view Parent(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

Node Value(std::string_view text) {
  const Document document = ReadJson("{\"v\": " + std::string(text) + "}");
  EXPECT_TRUE(document.faults.empty()) << text;
  const Node* node = document.root.Find("v");
  return node == nullptr ? Node{} : *node;
}

TEST(Schema, EveryKeyIsInASectionThatIsARow) {
  for (const KeySpec& row : Schema()) {
    const std::string_view parent = Parent(row.path);
    if (parent.empty()) continue;
    const KeySpec* section = FindKey(parent);
    ASSERT_NE(section, nullptr) << row.path;
    EXPECT_TRUE(section->type == ValueType::kSection || section->type == ValueType::kStage)
        << row.path;
  }
}

TEST(Schema, EveryDefaultIsAValidValueOfItsRow) {
  for (const KeySpec& row : Schema()) {
    for (const std::string_view text : {row.fallback, row.shoal}) {
      if (text.empty() || text == "null") continue;
      EXPECT_EQ(TypeFault(row, Value(text)), "") << row.path;
    }
  }
}

TEST(Schema, EveryRowSaysWhatItDoesInOneSentence) {
  for (const KeySpec& row : Schema()) {
    EXPECT_FALSE(row.note.empty()) << row.path;
    EXPECT_FALSE(row.note.ends_with('.')) << row.path;
    EXPECT_TRUE(row.type != ValueType::kChoice || !row.choices.empty()) << row.path;
  }
}

TEST(Schema, AliasesPointAtRowsAndShadowNone) {
  for (const KeyAlias& alias : Aliases()) {
    EXPECT_NE(FindKey(alias.target), nullptr) << alias.path;
    EXPECT_EQ(FindKey(alias.path), nullptr) << alias.path;
    EXPECT_EQ(Parent(alias.path), Parent(alias.target)) << alias.path;
  }
}

TEST(TypeFault, NamesTypeFoundValueAndRemedy) {
  const KeySpec& micro = *FindKey("train_micro_batch_size_per_gpu");
  EXPECT_EQ(TypeFault(micro, Value("5e8")), "");
  EXPECT_EQ(TypeFault(micro, Value("1.259000e+03")), "");
  EXPECT_EQ(TypeFault(micro, Value("0")), "must be a whole number from 1 to 2147483647, found 0");
  EXPECT_EQ(TypeFault(micro, Value("1.5")),
            "must be a whole number from 1 to 2147483647, found 1.5; the nearest is 2");
  EXPECT_EQ(TypeFault(micro, Value("\"4\"")),
            "must be a whole number from 1 to 2147483647, found the text \"4\"; remove the quotes");
  EXPECT_EQ(TypeFault(micro, Value("true")),
            "must be a whole number from 1 to 2147483647, found true");
  const KeySpec& enabled = *FindKey("bf16.enabled");
  EXPECT_EQ(TypeFault(enabled, Value("\"True\"")),
            "must be true or false, found the text \"True\"; remove the quotes");
  EXPECT_EQ(TypeFault(enabled, Value("1")), "must be true or false, found 1");
  const KeySpec& type = *FindKey("scheduler.type");
  EXPECT_EQ(TypeFault(type, Value("\"warmuplr\"")), "");
  EXPECT_EQ(TypeFault(type, Value("\"WarmpLR\"")),
            "must be one of WarmupLR, WarmupDecayLR, WarmupCosineLR, found the text \"WarmpLR\"; "
            "did you mean \"WarmupLR\"?");
  const KeySpec& dtype = *FindKey("communication_data_type");
  EXPECT_EQ(TypeFault(dtype, Value("\"bf16\"")), "");
  EXPECT_NE(TypeFault(dtype, Value("\"int8\"")), "");
  const KeySpec& betas = *FindKey("optimizer.params(Adam).betas");
  EXPECT_EQ(TypeFault(betas, Value("[0.9, 0.95]")), "");
  EXPECT_NE(TypeFault(betas, Value("[0.9, 1.0]")), "");
  EXPECT_NE(TypeFault(betas, Value("[0.9]")), "");
  const KeySpec& dp = *FindKey("shoal.mesh.dp");
  EXPECT_EQ(TypeFault(dp, Value("4")), "");
  EXPECT_EQ(TypeFault(dp, Value("[2, 4]")), "");
  EXPECT_NE(TypeFault(dp, Value("[2, 4.5]")), "");
}

TEST(ToInt, IsExactForPlainDigitsAndSaturates) {
  EXPECT_EQ(ToInt(Value("9007199254740993")), 9007199254740993);
  EXPECT_EQ(ToInt(Value("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(ToInt(Value("9223372036854775808")), INT64_MAX);
  EXPECT_EQ(ToInt(Value("5e8")), 500000000);
  EXPECT_EQ(ToInt(Value("-1")), -1);
}

TEST(EditDistance, CountsInsertDeleteReplaceAndSwap) {
  EXPECT_EQ(EditDistance("stage", "stage"), 0);
  EXPECT_EQ(EditDistance("stage", "stagee"), 1);
  EXPECT_EQ(EditDistance("stage", "satge"), 1);
  EXPECT_EQ(EditDistance("stage", "Stge"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(SuggestKey, PrefersTheRightPlaceThenTheNearestSibling) {
  EXPECT_EQ(SuggestKey("zero_optimization", "stagee"), "; did you mean \"stage\"?");
  EXPECT_EQ(SuggestKey("", "gradient_clipp1ng"), "; did you mean \"gradient_clipping\"?");
  EXPECT_EQ(SuggestKey("bf16", "loss_scale"), "; it belongs at fp16.loss_scale");
  EXPECT_EQ(SuggestKey("zero_optimization", "aio"), "; \"aio\" belongs at the top level");
  EXPECT_EQ(SuggestKey("", "stage"), "; it belongs at zero_optimization.stage");
  EXPECT_EQ(SuggestKey("optimizer.params(Adam)", "beta"), "; did you mean \"betas\"?");
  EXPECT_EQ(SuggestKey("", "something_else_entirely"), "");
  EXPECT_EQ(SuggestKey("", std::string(100000, 'x')), "");
}

TEST(Explain, GivesTypeDefaultsOfBothDialectsAndEffect) {
  EXPECT_EQ(Explain("gradient_clipping").value(),
            "gradient_clipping (number >= 0; default 1.0 for DeepSpeed, 0.0 for Shoal): largest "
            "global L2 norm of the gradients; 0 turns clipping off.");
  EXPECT_NE(Explain("bfloat16").value().find("bf16 (object"), std::string::npos);
  const std::string rates = Explain("optimizer.params.lr").value();
  EXPECT_NE(rates.find("optimizer.params(Adam).lr"), std::string::npos);
  EXPECT_NE(rates.find("optimizer.params(SGD).lr"), std::string::npos);
  const Status status = Explain("zero_optimization.stagee").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(
      status.ToString(),
      "[config] no key \"zero_optimization.stagee\"; did you mean \"zero_optimization.stage\"?");
}

}  // namespace
}  // namespace shoal::config
