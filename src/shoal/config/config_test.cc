#include "shoal/config/config.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::config {
namespace {

// A valid document with `keys` added, in DeepSpeed's dialect.
std::string Doc(std::string_view keys) {
  return "{\"train_micro_batch_size_per_gpu\": 1" +
         (keys.empty() ? "" : ",\n" + std::string(keys)) + "}";
}

Config Parse(std::string_view text) {
  Result<Config> result = ParseConfigText(text, "c.json");
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *result : Config{};
}

Status Refuse(std::string_view text) {
  const Result<Config> result = ParseConfigText(text, "c.json");
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? Status() : result.status();
}

// The lines of the report without its headline.
std::string Faults(std::string_view text) {
  const std::string message = Refuse(text).message();
  const size_t end = message.find('\n');
  return end == std::string::npos ? message : message.substr(end + 1);
}

bool HasNote(const Config& config, std::string_view path, std::string_view part) {
  return std::any_of(config.notes.begin(), config.notes.end(), [&](const Note& note) {
    return note.path == path && note.text.find(part) != std::string::npos;
  });
}

const Entry* FindEntry(const Config& config, std::string_view path) {
  for (const Entry& entry : config.effective) {
    if (entry.path == path) return &entry;
  }
  return nullptr;
}

TEST(Dialects, DeepSpeedDefaults) {
  const Config config = Parse(Doc(""));
  EXPECT_EQ(config.dialect, Dialect::kDeepSpeed);
  EXPECT_EQ(config.compute_dtype, DType::kFloat32);
  EXPECT_EQ(config.master_dtype, DType::kFloat32);
  EXPECT_EQ(config.reduce_dtype, std::nullopt);
  EXPECT_EQ(config.gradient_clipping, 1.0);
  EXPECT_EQ(config.zero_stage, 0);
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::kNone);
  EXPECT_EQ(config.scheduler.kind, SchedulerKind::kNone);
  EXPECT_EQ(config.steps_per_print, std::nullopt);
  EXPECT_TRUE(HasNote(config, "gradient_clipping", "not given: clipped at 1.0"));
}

TEST(Dialects, ShoalDefaults) {
  const Config config = Parse("{\"shoal\": {}}");
  EXPECT_EQ(config.dialect, Dialect::kShoal);
  EXPECT_EQ(config.compute_dtype, DType::kBFloat16);
  EXPECT_EQ(config.master_dtype, DType::kFloat32);
  EXPECT_EQ(config.accumulate_dtype, DType::kFloat32);
  EXPECT_EQ(config.reduce_dtype, std::nullopt);
  EXPECT_EQ(config.gradient_clipping, 0.0);
  EXPECT_EQ(config.reduce_group, ReduceGroup::kSeparate);
  EXPECT_EQ(config.accumulate, Accumulate::kReduced);
  EXPECT_EQ(config.non_finite, NonFinite::kSkip);
  EXPECT_EQ(config.timeout_s, 600.0);
  EXPECT_FALSE(config.deterministic);
  EXPECT_FALSE(config.debug);
  EXPECT_TRUE(config.notes.empty());
}

TEST(Dialects, ShoalKeysAreRead) {
  const Config config = Parse(R"({"shoal": {
      "mesh": {"pp": 1, "dp": [2, 4], "ep": 1, "sp": 1, "tp": 2},
      "compute_dtype": "float32", "master_dtype": "fp64", "reduce_dtype": "bf16",
      "accumulate_dtype": "float64", "reduce_group": "shared", "accumulate": "unreduced",
      "deterministic": true, "non_finite": "raise", "timeout_s": 60, "debug": true}})");
  EXPECT_EQ(config.mesh.dp_replicate, 2);
  EXPECT_EQ(config.mesh.dp, 4);
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.compute_dtype, DType::kFloat32);
  EXPECT_EQ(config.master_dtype, DType::kFloat64);
  EXPECT_EQ(config.reduce_dtype, DType::kBFloat16);
  EXPECT_EQ(config.accumulate_dtype, DType::kFloat64);
  EXPECT_EQ(config.reduce_group, ReduceGroup::kShared);
  EXPECT_EQ(config.accumulate, Accumulate::kUnreduced);
  EXPECT_TRUE(config.deterministic);
  EXPECT_EQ(config.non_finite, NonFinite::kRaise);
  EXPECT_EQ(config.timeout_s, 60.0);
  EXPECT_TRUE(config.debug);
}

TEST(Report, ListsEveryFaultInTheDocumentsOrder) {
  const Status status = Refuse(
      "{\n  \"zero_optimization\": {\"stagee\": 2, \"reduce_bucket_size\": 0},\n"
      "  \"steps_per_print\": inf,\n  \"gradient_clipping\": \"high\",\n  \"steps_per_print\": 1,\n"
      "  \"fp8\": {}\n}");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.ToString(),
      "[config] c.json: 6 faults\n"
      "c.json:2:25 zero_optimization.stagee: unknown key; did you mean \"stage\"?\n"
      "c.json:2:60 zero_optimization.reduce_bucket_size: must be a whole number >= 1, found 0\n"
      "c.json:3:22 steps_per_print: must be a finite number, found inf\n"
      "c.json:4:24 gradient_clipping: must be a number >= 0, found the text \"high\"\n"
      "c.json:5:3 steps_per_print: duplicate key; first given in line 3\n"
      "c.json:6:10 fp8: not supported: 8-bit floating point training is not implemented");
}

TEST(Report, IsUnsupportedOnlyWhenEveryFaultIs) {
  EXPECT_EQ(Refuse(Doc(R"("fp8": {})")).code(), StatusCode::kUnsupported);
  EXPECT_EQ(Refuse(Doc(R"("fp8": {}, "fp9": {})")).code(), StatusCode::kInvalidArgument);
}

TEST(Report, StopsAfterAHundredFaults) {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) text += "\"zz" + std::to_string(i) + "\": 1,";
  const std::string message = Refuse(text + "}").message();
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 100);
}

TEST(Report, HidesPlacesOfATextThatNobodySaw) {
  const Result<Config> bad = ParseConfigText(
      "{\"zero_optimization\": {\"stagee\": 1}, \"bf16\": {\"enabled\": true}, "
      "\"bfloat16\": {}}",
      "dict", Places::kHide);
  EXPECT_EQ(bad.status().message(),
            "dict: 2 faults\n"
            "dict: zero_optimization.stagee: unknown key; did you mean \"stage\"?\n"
            "dict: bf16: \"bfloat16\" is the same key as \"bf16\", with another value; keep one "
            "of them");
  const Result<Config> good = ParseConfigText(
      "{\"train_batch_size\": 2, \"zero_optimization\": true}", "dict", Places::kHide);
  ASSERT_TRUE(good.ok());
  for (const Note& note : good->notes) EXPECT_EQ(note.line, 0) << note.text;
  for (const Entry& entry : good->effective) EXPECT_EQ(entry.line, 0) << entry.path;
}

TEST(Keys, CommentKeysAreSkippedAtAnyDepth) {
  Parse(Doc(R"("_comment": {"x": [1]}, "zero_optimization": {"stage": 1, "_why": "memory"})"));
}

TEST(Keys, TheTablesOwnNotationIsNoKey) {
  EXPECT_NE(Faults(Doc(R"("zero_optimization.stage": 2)")).find("unknown key"), std::string::npos);
  EXPECT_NE(Faults(Doc(R"x("optimizer": {"type": "SGD", "params(SGD)": {}})x")).find("unknown key"),
            std::string::npos);
}

TEST(Keys, OtherSpellingsAreMappedWithANote) {
  const Config config = Parse(
      Doc(R"("bfloat16": {"enabled": true}, "zero_optimization": {"prefetch_bucket_size": 1})"));
  EXPECT_EQ(config.compute_dtype, DType::kBFloat16);
  EXPECT_TRUE(HasNote(config, "bf16", "other name \"bfloat16\""));
  EXPECT_TRUE(HasNote(config, "zero_optimization.stage3_prefetch_bucket_size", "other name"));
}

TEST(Keys, TwoSpellingsMustAgree) {
  Parse(Doc(R"("bf16": {"enabled": true}, "bfloat16": {"enabled": true})"));
  EXPECT_EQ(Faults(Doc("\"bf16\": {\"enabled\": true},\n\"bfloat16\": {\"enabled\": false}")),
            "c.json:3:1 bf16: \"bfloat16\" is the same key as \"bf16\" in line 2, with another "
            "value; keep one of them");
}

TEST(Keys, AutoIsListedWithWhatWouldFillIt) {
  const std::string faults = Faults(
      R"({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage3_max_live_parameters": "auto"}})");
  EXPECT_NE(faults.find("train_micro_batch_size_per_gpu: is still \"auto\"; Transformers' Trainer "
                        "fills it with per_device_train_batch_size"),
            std::string::npos)
      << faults;
  EXPECT_NE(faults.find("nothing fills it; write a value (whole number >= 0) or remove the key "
                        "(default 1e9)"),
            std::string::npos)
      << faults;
}

TEST(Keys, NullMeansNotGivenWhereThereIsNoDefault) {
  Parse(Doc(R"("optimizer": null, "steps_per_print": null, "train_batch_size": null)"));
  EXPECT_EQ(Faults(Doc(R"("gradient_clipping": null)")),
            "c.json:2:22 gradient_clipping: must be a number >= 0, found null");
}

TEST(Actions, HintsAreAcceptedWithANoteUnlessDefault) {
  const Config config = Parse(Doc(
      R"("zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8, "allgather_bucket_size": 5e8})"));
  EXPECT_TRUE(
      HasNote(config, "zero_optimization.reduce_bucket_size", "gathered and reduced whole"));
  EXPECT_FALSE(HasNote(config, "zero_optimization.allgather_bucket_size", ""));
}

TEST(Actions, WhatIsOffMayBeStated) {
  const Config config = Parse(Doc(R"("zero_optimization": {"offload_optimizer":
      {"device": "none", "nvme_path": "/nvme"}, "cpu_offload": false},
      "amp": {"enabled": false, "opt_level": "O2"}, "wall_clock_breakdown": false,
      "comms_logger": {"enabled": false}, "elasticity": {"enabled": false, "min_gpus": 1},
      "autotuning": {}, "tensor_parallel": {"autotp_size": 1}, "compile": {"deepcompile": false},
      "pipeline": {"stages": "auto"}, "gradient_allreduce_op": "Mean", "prescale_gradients": false)"));
  EXPECT_TRUE(
      HasNote(config, "zero_optimization.offload_optimizer.nvme_path", "offload, which is off"));
}

TEST(Actions, WhatIsNotImplementedIsUnsupported) {
  for (const std::string_view keys :
       {R"("zero_optimization": {"offload_optimizer": {"device": "cpu"}})",
        R"("zero_optimization": {"cpu_offload": true})", R"("amp": {"enabled": true})",
        R"("wall_clock_breakdown": true)", R"("elasticity": {"enabled": true})",
        R"("sparse_attention": {"mode": "fixed"})", R"("tensor_parallel": {"autotp_size": 2})",
        R"("gradient_allreduce_op": "sum")", R"("prescale_gradients": true)",
        R"("zero_optimization": {"zero_hpz_partition_size": 8})",
        R"("activation_checkpointing": {"cpu_checkpointing": true})",
        R"("optimizer": {"type": "Lamb", "params": {"max_coeff": 1}})",
        R"("scheduler": {"type": "OneCycle"})", R"("compile": {"backend": "inductor"})",
        R"("optimizer": {"type": "Adam", "params": {"amsgrad": true}})",
        R"("bf16": {"check_grad_overflow": false})"}) {
    const Status status = Refuse(Doc(keys));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.ToString();
    EXPECT_NE(status.message().find("c.json: 1 fault\n"), std::string::npos) << status.ToString();
  }
}

TEST(Actions, WrongTypesOfUnsupportedKeysAreWrong) {
  EXPECT_EQ(Refuse(Doc(R"("amp": {"enabled": "yes"})")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refuse(Doc(R"("elasticity": false)")).code(), StatusCode::kInvalidArgument);
}

TEST(Precision, BothHalvesOnIsAnError) {
  EXPECT_EQ(Faults(Doc("\"bf16\": {\"enabled\": true},\n\"fp16\": {\"enabled\": true}")),
            "c.json:3:21 fp16.enabled: bf16.enabled in line 2 and fp16.enabled are both true; "
            "choose one");
}

TEST(Precision, Fp16ReadsItsScaler) {
  const Config config = Parse(Doc(R"("fp16": {"enabled": true, "loss_scale": 128,
      "initial_scale_power": 32, "loss_scale_window": 500, "hysteresis": 4,
      "consecutive_hysteresis": true, "min_loss_scale": 0.5})"));
  EXPECT_EQ(config.compute_dtype, DType::kFloat16);
  EXPECT_TRUE(config.fp16.enabled);
  EXPECT_EQ(config.fp16.loss_scale, 128.0);
  EXPECT_EQ(config.fp16.initial_scale_power, 32);
  EXPECT_EQ(config.fp16.loss_scale_window, 500);
  EXPECT_EQ(config.fp16.hysteresis, 4);
  EXPECT_TRUE(config.fp16.consecutive_hysteresis);
  EXPECT_EQ(config.fp16.min_loss_scale, 0.5);
}

TEST(Precision, Fp16ReadsItsScalerInShoalsDialectToo) {
  const Config config =
      Parse(R"({"shoal": {"compute_dtype": "fp16"}, "fp16": {"loss_scale_window": 7}})");
  EXPECT_TRUE(config.fp16.enabled);
  EXPECT_EQ(config.fp16.loss_scale_window, 7);
}

TEST(Precision, DoubleComputeHasADoubleMaster) {
  const Config config = Parse(R"({"shoal": {"compute_dtype": "float64"}})");
  EXPECT_EQ(config.master_dtype, DType::kFloat64);
  EXPECT_EQ(config.accumulate_dtype, DType::kFloat64);
  EXPECT_NE(Faults(R"({"shoal": {"compute_dtype": "fp64", "master_dtype": "fp32"}})")
                .find("must be float64 for compute dtype float64, found float32"),
            std::string::npos);
  EXPECT_NE(Faults(R"({"shoal": {"master_dtype": "bf16"}})").find("must be float32 or float64"),
            std::string::npos);
}

TEST(Precision, DeepSpeedsAccumulatorHasTheComputeDType) {
  EXPECT_EQ(Parse(Doc("")).accumulate_dtype, DType::kFloat32);
  const Config zero2 =
      Parse(Doc(R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2})"));
  EXPECT_EQ(zero2.accumulate_dtype, DType::kBFloat16);
  EXPECT_TRUE(HasNote(zero2, "data_types.grad_accum_dtype", "accumulated in bfloat16"));
  EXPECT_EQ(Parse(Doc(R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
                         "data_types": {"grad_accum_dtype": "fp32"})"))
                .accumulate_dtype,
            DType::kFloat32);
}

TEST(Precision, TwoNamesOfOneDTypeMustAgree) {
  EXPECT_EQ(Parse(R"({"communication_data_type": "fp32", "shoal": {"reduce_dtype": "float32"}})")
                .reduce_dtype,
            DType::kFloat32);
  EXPECT_NE(Faults(R"({"communication_data_type": "fp32", "shoal": {"reduce_dtype": "bf16"}})")
                .find("both mean the same, keep one"),
            std::string::npos);
}

TEST(Precision, SwitchesMustAgreeWithShoalsComputeDType) {
  EXPECT_NE(Faults(R"({"fp16": {"enabled": true}, "shoal": {"compute_dtype": "bf16"}})")
                .find("fp16.enabled: is true, but shoal.compute_dtype in line 1 is bfloat16"),
            std::string::npos);
  EXPECT_NE(
      Faults(R"({"bf16": {"enabled": false}, "shoal": {}})").find("write shoal.compute_dtype"),
      std::string::npos);
  EXPECT_EQ(Parse(R"({"fp16": {"enabled": true}, "shoal": {}})").compute_dtype, DType::kFloat16);
}

TEST(Precision, ParamDTypeMustEqualTheComputeDType) {
  Parse(Doc(R"("bf16": {"enabled": true}, "data_types": {"param_dtype": "bfloat16"})"));
  EXPECT_NE(Faults(Doc(R"("data_types": {"param_dtype": "bf16"})"))
                .find("must equal the compute dtype float32"),
            std::string::npos);
}

TEST(Optimizer, AdamDecouplesInDeepSpeedsDialectOnly) {
  const std::string keys = R"("optimizer": {"type": "Adam", "params": {"weight_decay": 0.1}})";
  const Config deepspeed = Parse(Doc(keys));
  EXPECT_EQ(deepspeed.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_TRUE(deepspeed.optimizer.decoupled_weight_decay);
  EXPECT_TRUE(HasNote(deepspeed, "optimizer.type", "decouples"));
  EXPECT_FALSE(Parse(Doc(keys + ", \"shoal\": {}")).optimizer.decoupled_weight_decay);
  EXPECT_FALSE(Parse(Doc(R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false}})"))
                   .optimizer.decoupled_weight_decay);
}

TEST(Optimizer, EveryParameterOfAdamWArrives) {
  const OptimizerConfig adamw =
      Parse(Doc(R"("optimizer": {"type": "adamw", "params": {"lr": 3e-5, "betas": [0.8, 0.99],
                   "eps": 1e-6, "weight_decay": 0.01, "bias_correction": false}})"))
          .optimizer;
  EXPECT_EQ(adamw.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(adamw.lr, 3e-5);
  EXPECT_EQ(adamw.beta1, 0.8);
  EXPECT_EQ(adamw.beta2, 0.99);
  EXPECT_EQ(adamw.eps, 1e-6);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  EXPECT_FALSE(adamw.bias_correction);
  EXPECT_TRUE(adamw.decoupled_weight_decay);
  EXPECT_NE(Faults(Doc(R"("optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}})"))
                .find("use the type Adam"),
            std::string::npos);
}

TEST(Optimizer, EveryParameterOfSgdArrives) {
  const OptimizerConfig sgd =
      Parse(Doc(R"("optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9,
                   "weight_decay": 1e-4, "nesterov": true}})"))
          .optimizer;
  EXPECT_EQ(sgd.kind, OptimizerKind::kSgd);
  EXPECT_EQ(sgd.lr, 0.1);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(sgd.weight_decay, 1e-4);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(Parse(Doc(R"("optimizer": {"type": "SGD", "params": {"dampening": 0.5}})"))
                .optimizer.dampening,
            0.5);
  EXPECT_NE(Faults(Doc(R"("optimizer": {"type": "SGD", "params": {"nesterov": true}})"))
                .find("needs momentum > 0 and dampening 0"),
            std::string::npos);
}

TEST(Optimizer, ParametersOfOtherTypesAreUnknown) {
  EXPECT_NE(Faults(Doc(R"("optimizer": {"type": "SGD", "params": {"betas": [0.9, 0.99]}})"))
                .find("optimizer.params.betas: unknown key"),
            std::string::npos);
  EXPECT_NE(Faults(Doc(R"("optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1}})"))
                .find("gradient_clipping"),
            std::string::npos);
  EXPECT_NE(Faults(Doc(R"("optimizer": {"params": {}})")).find("has no \"type\""),
            std::string::npos);
}

TEST(Scheduler, EveryKindIsRead) {
  const SchedulerConfig warmup = Parse(Doc(R"("scheduler": {"type": "WarmupLR", "params":
      {"warmup_min_lr": 1e-6, "warmup_max_lr": 1e-3, "warmup_num_steps": 10,
       "warmup_type": "linear"}})"))
                                     .scheduler;
  EXPECT_EQ(warmup.kind, SchedulerKind::kWarmupLR);
  EXPECT_EQ(warmup.warmup_min_lr, 1e-6);
  EXPECT_EQ(warmup.warmup_max_lr, 1e-3);
  EXPECT_EQ(warmup.warmup_num_steps, 10);
  EXPECT_FALSE(warmup.warmup_log);
  const SchedulerConfig decay =
      Parse(
          Doc(R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1.259e+03}})"))
          .scheduler;
  EXPECT_EQ(decay.kind, SchedulerKind::kWarmupDecayLR);
  EXPECT_EQ(decay.total_num_steps, 1259);
  EXPECT_EQ(decay.warmup_max_lr, 0.001);
  EXPECT_TRUE(decay.warmup_log);
  const SchedulerConfig cosine = Parse(Doc(R"("scheduler": {"type": "WarmupCosineLR", "params":
      {"total_num_steps": 100, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.01}})"))
                                     .scheduler;
  EXPECT_EQ(cosine.kind, SchedulerKind::kWarmupCosineLR);
  EXPECT_EQ(cosine.total_num_steps, 100);
  EXPECT_EQ(cosine.warmup_min_ratio, 0.1);
  EXPECT_EQ(cosine.cos_min_ratio, 0.01);
}

TEST(Scheduler, TheGroupsRateIsTheDefaultPeak) {
  EXPECT_EQ(Parse(Doc(R"("scheduler": {"type": "WarmupLR"})")).scheduler.warmup_max_lr,
            std::nullopt);
}

TEST(Scheduler, TotalStepsAreRequiredOnce) {
  EXPECT_NE(Faults(Doc(R"("scheduler": {"type": "WarmupDecayLR", "params": {}})"))
                .find("scheduler.params.total_num_steps: is required"),
            std::string::npos);
  const std::string bad =
      Faults(Doc(R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "x"}})"));
  EXPECT_EQ(bad.find("is required"), std::string::npos) << bad;
}

TEST(Scheduler, ThePeakMustNotBeBelowTheStart) {
  EXPECT_NE(Faults(Doc(R"("scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1,
                          "warmup_max_lr": 0.1}})"))
                .find("must be at least warmup_min_lr 1, found 0.1"),
            std::string::npos);
}

TEST(Zero, TheOldBooleanIsStageOneOrZero) {
  const Config on = Parse(Doc(R"("zero_optimization": true)"));
  EXPECT_EQ(on.zero_stage, 1);
  EXPECT_TRUE(HasNote(on, "zero_optimization", "true means stage 1"));
  EXPECT_EQ(Parse(Doc(R"("zero_optimization": false)")).zero_stage, 0);
  EXPECT_EQ(Faults(Doc(R"("zero_optimization": {"stage": 4})")),
            "c.json:2:32 zero_optimization.stage: must be a whole number from 0 to 3, found 4");
}

TEST(Batch, ContradictionsAtAnyWorldSizeAreFoundWhenParsing) {
  EXPECT_EQ(Faults(R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 2,
                       "gradient_accumulation_steps": 18})"),
            "c.json:1:22 train_batch_size: 256 is not micro batch 2 x accumulation 18 x any "
            "data-parallel size; the nearest multiples of 36 are 252 and 288");
  EXPECT_NE(Faults(R"({"train_batch_size": 2, "gradient_accumulation_steps": 4})")
                .find("2 is not accumulation 4 x any data-parallel size; the smallest is 4"),
            std::string::npos);
  Parse(R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4,
            "gradient_accumulation_steps": 8})");
}

TEST(Mesh, DeepSpeedsSizesAreAxes) {
  const Config config = Parse(Doc(R"("sequence_parallel_size": 2, "data_parallel_size": 4)"));
  EXPECT_EQ(config.mesh.sp, 2);
  EXPECT_EQ(config.mesh.dp, 4);
  EXPECT_NE(Faults(Doc(R"("data_parallel_size": 4, "shoal": {"mesh": {"dp": 2}})"))
                .find("both mean the same"),
            std::string::npos);
}

TEST(Effective, EachValueHasItsOrigin) {
  const Config config = Parse("{\"shoal\": {},\n\"gradient_clipping\": 0.5}");
  const Entry* clipping = FindEntry(config, "gradient_clipping");
  ASSERT_NE(clipping, nullptr);
  EXPECT_EQ(clipping->value, "0.5");
  EXPECT_EQ(clipping->origin, Origin::kFile);
  EXPECT_EQ(clipping->line, 2);
  EXPECT_EQ(FindEntry(config, "shoal.compute_dtype")->origin, Origin::kDefault);
  EXPECT_EQ(FindEntry(config, "shoal.master_dtype")->origin, Origin::kDerived);
}

TEST(ParseConfigFile, ReadsFilesAndSaysWhatItCannotRead) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "shoal_config_test";
  std::filesystem::create_directories(dir);
  const std::filesystem::path path = dir / "good.json";
  std::ofstream(path) << Doc("");
  const Result<Config> good = ParseConfigFile(path);
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_EQ(good->source, "good.json");
  EXPECT_EQ(ParseConfigFile(dir / "absent.json").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParseConfigFile(dir).status().code(), StatusCode::kIoError);
  std::ofstream(dir / "empty.json") << "";
  EXPECT_EQ(ParseConfigFile(dir / "empty.json").status().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove_all(dir);
}

TEST(ParseConfigFile, EndlessFilesAreRefused) {
  const Status status = ParseConfigFile("/dev/zero").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("larger than the limit"), std::string::npos);
}

}  // namespace
}  // namespace shoal::config
