// Every configuration from the field (tests/data/configs, facts from public repositories) gets the
// right verdict.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/config/config.h"

namespace shoal::config {
namespace {

struct Verdict {
  std::string_view file;
  StatusCode code;
  int64_t faults;
  std::vector<std::string_view> parts;  // each must be in the report
};

std::filesystem::path Folder() { return std::filesystem::path(SHOAL_TEST_DATA) / "configs"; }

std::vector<Verdict> Verdicts() {
  using enum StatusCode;
  return {
      {"01_hf_tests_zero2.json",
       kInvalidArgument,
       14,
       {"bf16.enabled: is still \"auto\"", "optimizer.params.lr: is still \"auto\"", "\"cpu\""}},
      {"03_accelerate_tests_zero3.json",
       kInvalidArgument,
       16,
       {"stage3_gather_16bit_weights_on_model_save: is still \"auto\" and nothing fills it"}},
      {"05_fastchat_s2.json", kInvalidArgument, 3, {"per_device_train_batch_size"}},
      {"07_chatglm6b_ptuning.json", kInvalidArgument, 2, {"fp16.enabled: is still \"auto\""}},
      {"09_ms_swift_2023_zero2.json", kInvalidArgument, 7, {"max_grad_norm"}},
      {"11_llamafactory_z2_autotp.json",
       kInvalidArgument,
       7,
       {"tensor_parallel.autotp_size: found 2, only 0 is supported"}},
      {"13_llamafactory_z3_sp_bf16_scale_keys.json",
       kInvalidArgument,
       24,
       {"bf16.loss_scale: unknown key; it belongs at fp16.loss_scale",
        "bf16.auto_cast: unknown key; it belongs at fp16.auto_cast",
        "sequence_parallel: not supported", "comms_config: unknown key"}},
      {"15_llamafactory_sweep_gradaccum_bf16.json", kInvalidArgument, 4, {"gradient_clipping"}},
      {"17_axolotl_zero1_compile_block.json",
       kInvalidArgument,
       8,
       {"compile.backend: not supported: DeepSpeed dropped this key"}},
      {"19_openfold.json", kUnsupported, 2, {"partition_activations", "offload_optimizer.device"}},
      {"21_csc_cifar_fp32.json", kOk, 0, {}},
      {"22_megatron_ds_zero1_fp16.json", kUnsupported, 1, {"wall_clock_breakdown: found true"}},
      {"23_megatron_ds_universal_zero3.json",
       kInvalidArgument,
       1,
       {":13:3 zero_optimization.ignore_missing_optim_state: unknown key"}},
      {"25_dsexamples_autotp_hf.json", kInvalidArgument, 14, {"max_steps", "autotp_size: found 4"}},
      {"27_openrlhf_eval_offload.json", kInvalidArgument, 5, {"offload_param.device", "\"auto\""}},
      {"29_ds_quickstart_bool_zero.json", kOk, 0, {}},
      {"31_ds_bingbert_squad_zero2.json", kOk, 0, {}},
      {"33_bad_nvme_aio_nested_opt_level.json",
       kInvalidArgument,
       4,
       {"\"aio\" belongs at the top level", "fp16.opt_level: unknown key", "\"nvme\""}},
      {"35_bad_typo_gradient_clipping.json",
       kInvalidArgument,
       1,
       {":2:2 gradient_clipp1ng: unknown key; did you mean \"gradient_clipping\"?"}},
      {"36_bad_auto_without_integration.json",
       kInvalidArgument,
       2,
       {"fp16.enabled: is still \"auto\"", "gradient_clipping: is still \"auto\""}},
      {"37_bad_float_prefetch_bucket.json",
       kInvalidArgument,
       1,
       {"found 15099494.4; the nearest is 15099494"}},
      {"39_bad_pasted_log_inf.json",
       kInvalidArgument,
       1,
       {":7:21 steps_per_print: must be a finite number, found inf"}},
      {"41_bad_batch_contradiction.json",
       kInvalidArgument,
       1,
       {"256 is not micro batch 2 x accumulation 18", "252 and 288"}},
      {"43_bad_old_and_new_offload_keys.json",
       kUnsupported,
       2,
       {"cpu_offload: found true", "offload_optimizer.device"}},
      {"45_bad_removed_sparse_gradients.json", kUnsupported, 1, {"sparse_gradients: found true"}},
      {"47_bad_hf_universal_flag_toplevel.json", kUnsupported, 2, {"checkpoint.load_universal"}},
  };
}

TEST(ConfigsFromTheField, GetTheRightVerdict) {
  for (const Verdict& verdict : Verdicts()) {
    const Result<Config> result = ParseConfigFile(Folder() / verdict.file);
    const Status status = result.ok() ? Status() : result.status();
    const std::string& message = status.message();
    EXPECT_EQ(status.code(), verdict.code) << verdict.file << '\n' << message;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), verdict.faults) << message;
    for (const std::string_view part : verdict.parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << '\n' << message;
    }
  }
}

TEST(ConfigsFromTheField, AllHaveAVerdict) {
  std::set<std::string> files, judged;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    files.insert(entry.path().filename().string());
  }
  for (const Verdict& verdict : Verdicts()) judged.emplace(verdict.file);
  EXPECT_EQ(files, judged);
}

TEST(ConfigsFromTheField, AcceptedOnesMeanWhatTheySay) {
  const Config cifar = *ParseConfigFile(Folder() / "21_csc_cifar_fp32.json");
  EXPECT_EQ(cifar.compute_dtype, DType::kFloat32);
  EXPECT_EQ(cifar.optimizer.beta1, 0.8);
  EXPECT_EQ(cifar.optimizer.weight_decay, 3e-7);
  EXPECT_EQ(ResolveBatch(cifar, 8, "test")->micro_batch, 50);
  EXPECT_NE(ResolveBatch(cifar, 3, "test").status().message().find("399 = 133 x 1 x 3"),
            std::string::npos);
  const Config quickstart = *ParseConfigFile(Folder() / "29_ds_quickstart_bool_zero.json");
  EXPECT_EQ(quickstart.zero_stage, 1);
  EXPECT_TRUE(quickstart.fp16.enabled);
  const Config bert = *ParseConfigFile(Folder() / "31_ds_bingbert_squad_zero2.json");
  EXPECT_FALSE(bert.optimizer.bias_correction);
  EXPECT_EQ(ResolveBatch(bert, 1, "test")->accumulation, 8);
  EXPECT_EQ(ResolveBatch(bert, 8, "test")->accumulation, 1);
}

}  // namespace
}  // namespace shoal::config
