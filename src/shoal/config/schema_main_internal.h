// Rows of the schema that describe a training run: batch, precision, optimizer, schedule, ZeRO,
// Shoal's own keys. Included by schema.cc only. Not installed.
#pragma once

#include <array>
#include <string_view>

#include "shoal/config/schema.h"

namespace shoal::config::rows {

constexpr KeySpec Section(std::string_view path, std::string_view note) {
  return {.path = path, .type = ValueType::kSection, .action = Action::kRead, .note = note};
}
constexpr KeySpec Read(std::string_view path, ValueType type, std::string_view fallback,
                       std::string_view note) {
  return {.path = path, .type = type, .action = Action::kRead, .fallback = fallback, .note = note};
}
constexpr KeySpec Hint(std::string_view path, ValueType type, std::string_view fallback,
                       std::string_view note) {
  return {.path = path, .type = type, .action = Action::kHint, .fallback = fallback, .note = note};
}
constexpr KeySpec Only(std::string_view path, ValueType type, std::string_view fallback,
                       std::string_view note) {
  return {.path = path,
          .type = type,
          .action = Action::kDefaultOnly,
          .fallback = fallback,
          .note = note};
}
constexpr KeySpec Off(std::string_view path, std::string_view note) {
  return {.path = path, .type = ValueType::kAny, .action = Action::kIgnored, .note = note};
}
constexpr KeySpec Refused(std::string_view path, std::string_view note) {
  return {.path = path, .type = ValueType::kAny, .action = Action::kRefused, .note = note};
}

// Reasons that several rows share.
inline constexpr std::string_view kWholeUnits =
    "has no effect: units are gathered and reduced whole, in buffers sized by the plan";
inline constexpr std::string_view kOneSchedule =
    "has no effect: the engine has one schedule and it is always on";
inline constexpr std::string_view kOneImplementation =
    "has no effect: there is one fused implementation";
inline constexpr std::string_view kNoOffload = "offload to host memory or disk is not implemented";
inline constexpr std::string_view kWithOffload = "only read with offload, which is off";
inline constexpr std::string_view kNoQuantizedComm = "quantised communication is not implemented";

// clang-format off
inline constexpr auto kMainRows = std::to_array<KeySpec>({
    Read("train_batch_size", ValueType::kInt, "", "samples per optimizer step over all ranks; micro batch x accumulation x data-parallel size").In(Range::kCount),
    Read("train_micro_batch_size_per_gpu", ValueType::kInt, "", "samples per rank and backward").In(Range::kCount),
    Read("gradient_accumulation_steps", ValueType::kInt, "", "backwards per optimizer step; 1 when nothing else determines it").In(Range::kCount),
    Read("gradient_clipping", ValueType::kFloat, "1.0", "largest global L2 norm of the gradients; 0 turns clipping off").In(Range::kAtLeastZero).Shoal("0.0"),
    Read("steps_per_print", ValueType::kInt, "null", "optimizer steps between two progress lines; null is silent").In(Range::kAtLeastOne),
    Read("communication_data_type", ValueType::kDType, "null", "dtype in which gradients are reduced; null: the gradients' own"),
    Read("sequence_parallel_size", ValueType::kInt, "null", "size of the mesh's axis sp").In(Range::kAtLeastOne),
    Read("data_parallel_size", ValueType::kInt, "null", "size of the mesh's axis dp").In(Range::kAtLeastOne),
    Hint("zero_allow_untested_optimizer", ValueType::kBool, "false", "has no effect: every element-wise optimizer works on shards"),
    Hint("zero_force_ds_cpu_optimizer", ValueType::kBool, "true", kWithOffload),
    Hint("seq_parallel_communication_data_type", ValueType::kDType, "\"fp32\"", "only read with sequence parallelism"),
    Only("managed_gradient_accumulation", ValueType::kBool, "true", "the engine always knows the accumulation boundary"),
    Only("prescale_gradients", ValueType::kBool, "false", "gradients are averaged after the reduction"),
    Only("gradient_predivide_factor", ValueType::kFloat, "1.0", "gradients are averaged after the reduction"),
    Only("gradient_allreduce_op", ValueType::kChoice, "\"mean\"", "gradients are always averaged over data-parallel ranks").OneOf("mean"),
    Only("sparse_gradients", ValueType::kBool, "false", "sparse gradients are not reduced sparsely; remove the key (DeepSpeed removed it too) and use torch's Embedding(sparse=False)"),
    Only("disable_allgather", ValueType::kBool, "false", "the engine always gathers with all-gather"),
    Only("dump_state", ValueType::kBool, "false", "there is no dump of the engine's state; see Config.describe()"),
    Only("wall_clock_breakdown", ValueType::kBool, "false", "timings are not printed; use torch.profiler"),
    Only("memory_breakdown", ValueType::kBool, "false", "memory is not printed; read torch's memory statistics"),
    Only("use_data_before_expert_parallelism", ValueType::kBool, "false", "expert parallelism is not implemented"),
    Only("graph_harvesting", ValueType::kBool, "false", "CUDA graphs are not captured"),
    Only("dataloader_drop_last", ValueType::kBool, "false", "Shoal makes no data loader; pass drop_last to yours"),
    Only("disable_python_gc", ValueType::kBool, "false", "call gc.disable() yourself"),
    Only("log_level", ValueType::kString, "null", "set the level with Python's logging or SHOAL_LOG_LEVEL"),
    Only("vocabulary_size", ValueType::kInt, "null", "nothing here depends on a vocabulary"),
    Refused("fp8", "8-bit floating point training is not implemented"),
    Refused("sequence_parallel", "no such section; sequence parallelism is the mesh's axis sp (sequence_parallel_size)"),
    Refused("universal_checkpoint", "no such key at the top level; it is checkpoint.load_universal in DeepSpeed"),
    Refused("load_universal_checkpoint", "no such key at the top level; it is checkpoint.load_universal in DeepSpeed"),

    Section("bf16", "bfloat16 compute with a float32 master copy"),
    Read("bf16.enabled", ValueType::kBool, "false", "compute in bfloat16"),
    Hint("bf16.immediate_grad_update", ValueType::kBool, "false", "has no effect: gradients are always taken as they arise"),
    Only("bf16.check_grad_overflow", ValueType::kBool, "true", "a step with a non-finite norm is never applied (see shoal.non_finite)"),
    Only("bf16.bf16_master_weights_and_grads", ValueType::kBool, "false", "the master copy is float32 or float64"),
    Only("bf16.bf16_optimizer_states", ValueType::kBool, "false", "optimizer state has the master copy's dtype"),

    Section("fp16", "float16 compute with loss scaling"),
    Read("fp16.enabled", ValueType::kBool, "false", "compute in float16"),
    Read("fp16.loss_scale", ValueType::kFloat, "0", "fixed loss scale; 0 is dynamic").In(Range::kAtLeastZero),
    Read("fp16.initial_scale_power", ValueType::kInt, "16", "the dynamic scale starts at 2 to this power").In(Range::kScalePower),
    Read("fp16.loss_scale_window", ValueType::kInt, "1000", "good steps before the scale doubles").In(Range::kAtLeastOne),
    Read("fp16.hysteresis", ValueType::kInt, "2", "overflows before the scale halves").In(Range::kAtLeastOne),
    Read("fp16.consecutive_hysteresis", ValueType::kBool, "false", "a good step refills the hysteresis"),
    Read("fp16.min_loss_scale", ValueType::kFloat, "1", "the dynamic scale never falls below").In(Range::kAboveZero),
    Only("fp16.auto_cast", ValueType::kBool, "false", "inputs are not cast; cast them in the data loader"),
    Only("fp16.fp16_master_weights_and_grads", ValueType::kBool, "false", "the master copy is float32 or float64"),

    Section("amp", "NVIDIA apex"),
    Only("amp.enabled", ValueType::kBool, "false", "apex is not supported; use bf16 or fp16"),
    Off("amp.opt_level", "only read by apex, which is off"),
    Off("amp.cast_model_type", "only read by apex, which is off"),
    Off("amp.patch_torch_functions", "only read by apex, which is off"),
    Off("amp.keep_batchnorm_fp32", "only read by apex, which is off"),
    Off("amp.master_weights", "only read by apex, which is off"),
    Off("amp.loss_scale", "only read by apex, which is off"),

    Section("torch_autocast", "torch.autocast around the forward"),
    Only("torch_autocast.enabled", ValueType::kBool, "false", "autocast is not set up by the engine; use bf16 or your own torch.autocast"),
    Off("torch_autocast.dtype", "only read with autocast, which is off"),
    Off("torch_autocast.lower_precision_safe_modules", "only read with autocast, which is off"),

    Section("data_types", "dtypes beside the compute dtype"),
    Read("data_types.grad_accum_dtype", ValueType::kDType, "null", "dtype of the gradient accumulator; null: the compute dtype; in Shoal's dialect the master dtype"),
    Read("data_types.param_dtype", ValueType::kDType, "null", "must equal the compute dtype"),
    Only("data_types.keep_in_fp32_modules", ValueType::kAny, "\"auto\"", "every parameter has the compute dtype"),
    Only("data_types.buffer_dtype", ValueType::kDType, "null", "buffers keep the model's dtype"),

    Section("optimizer", "the optimizer that the engine makes; absent: the caller's, or none"),
    Read("optimizer.type", ValueType::kChoice, "", "the optimizer's name").OneOf("AdamW|Adam|SGD"),
    Only("optimizer.legacy_fusion", ValueType::kBool, "false", "there is one fused implementation"),
    Section("optimizer.params(Adam)", "parameters of Adam and AdamW"),
    Read("optimizer.params(Adam).lr", ValueType::kFloat, "0.001", "learning rate").In(Range::kAtLeastZero),
    Read("optimizer.params(Adam).betas", ValueType::kPair, "[0.9, 0.999]", "decay of the two moments").In(Range::kBelowOne),
    Read("optimizer.params(Adam).eps", ValueType::kFloat, "1e-08", "added to the root of the second moment").In(Range::kAtLeastZero),
    Read("optimizer.params(Adam).weight_decay", ValueType::kFloat, "0.0", "decay of the weights").In(Range::kAtLeastZero),
    Read("optimizer.params(Adam).bias_correction", ValueType::kBool, "true", "correct the moments' start at zero"),
    Read("optimizer.params(Adam).adam_w_mode", ValueType::kBool, "true", "Adam only: decoupled decay (AdamW) instead of decay added to the gradient").Shoal("false"),
    Hint("optimizer.params(Adam).torch_adam", ValueType::kBool, "false", "has no effect: the result is that of torch.optim either way"),
    Hint("optimizer.params(Adam).set_grad_none", ValueType::kBool, "true", "has no effect: gradients live in the engine"),
    Only("optimizer.params(Adam).amsgrad", ValueType::kBool, "false", "the AMSGrad variant is not implemented"),
    Hint("optimizer.params(Adam).foreach", ValueType::kBool, "null", kOneImplementation),
    Hint("optimizer.params(Adam).fused", ValueType::kBool, "null", kOneImplementation),
    Only("optimizer.params(Adam).maximize", ValueType::kBool, "false", "negate the loss instead"),
    Only("optimizer.params(Adam).fp32_optimizer_states", ValueType::kBool, "true", "optimizer state has the master copy's dtype"),
    Refused("optimizer.params(Adam).max_grad_norm", "clipping is gradient_clipping at the top level"),
    Section("optimizer.params(SGD)", "parameters of SGD"),
    Read("optimizer.params(SGD).lr", ValueType::kFloat, "0.001", "learning rate").In(Range::kAtLeastZero),
    Read("optimizer.params(SGD).momentum", ValueType::kFloat, "0.0", "momentum factor").In(Range::kAtLeastZero),
    Read("optimizer.params(SGD).dampening", ValueType::kFloat, "0.0", "dampening of the momentum"),
    Read("optimizer.params(SGD).weight_decay", ValueType::kFloat, "0.0", "decay added to the gradient").In(Range::kAtLeastZero),
    Read("optimizer.params(SGD).nesterov", ValueType::kBool, "false", "Nesterov momentum; needs momentum > 0 and dampening 0"),
    Hint("optimizer.params(SGD).foreach", ValueType::kBool, "null", kOneImplementation),
    Hint("optimizer.params(SGD).fused", ValueType::kBool, "null", kOneImplementation),
    Only("optimizer.params(SGD).maximize", ValueType::kBool, "false", "negate the loss instead"),
    Refused("optimizer.params(SGD).max_grad_norm", "clipping is gradient_clipping at the top level"),

    Section("scheduler", "the learning-rate schedule; absent: constant"),
    Read("scheduler.type", ValueType::kChoice, "", "the schedule's name").OneOf("WarmupLR|WarmupDecayLR|WarmupCosineLR"),
    Section("scheduler.params(WarmupLR)", "rises, then stays"),
    Read("scheduler.params(WarmupLR).warmup_min_lr", ValueType::kFloat, "0.0", "rate at the start").In(Range::kAtLeastZero),
    Read("scheduler.params(WarmupLR).warmup_max_lr", ValueType::kFloat, "null", "rate after the warm-up; null: the optimizer's").In(Range::kAtLeastZero),
    Read("scheduler.params(WarmupLR).warmup_num_steps", ValueType::kInt, "1000", "optimizer steps of warm-up").In(Range::kAtLeastOne),
    Read("scheduler.params(WarmupLR).warmup_type", ValueType::kChoice, "\"log\"", "shape of the rise").OneOf("log|linear"),
    Only("scheduler.params(WarmupLR).last_batch_iteration", ValueType::kInt, "-1", "the position comes from the checkpoint"),
    Section("scheduler.params(WarmupDecayLR)", "rises, then falls linearly to 0"),
    Read("scheduler.params(WarmupDecayLR).total_num_steps", ValueType::kInt, "", "optimizer steps of the whole run; required").In(Range::kAtLeastOne),
    Read("scheduler.params(WarmupDecayLR).warmup_min_lr", ValueType::kFloat, "0.0", "rate at the start").In(Range::kAtLeastZero),
    Read("scheduler.params(WarmupDecayLR).warmup_max_lr", ValueType::kFloat, "0.001", "rate after the warm-up; null: the optimizer's").In(Range::kAtLeastZero).Shoal("null"),
    Read("scheduler.params(WarmupDecayLR).warmup_num_steps", ValueType::kInt, "1000", "optimizer steps of warm-up").In(Range::kAtLeastOne),
    Read("scheduler.params(WarmupDecayLR).warmup_type", ValueType::kChoice, "\"log\"", "shape of the rise").OneOf("log|linear"),
    Only("scheduler.params(WarmupDecayLR).last_batch_iteration", ValueType::kInt, "-1", "the position comes from the checkpoint"),
    Section("scheduler.params(WarmupCosineLR)", "rises, then follows a cosine; ratios multiply the optimizer's rate"),
    Read("scheduler.params(WarmupCosineLR).total_num_steps", ValueType::kInt, "", "optimizer steps of the whole run; required").In(Range::kAtLeastOne),
    Read("scheduler.params(WarmupCosineLR).warmup_min_ratio", ValueType::kFloat, "0.0", "ratio at the start").In(Range::kAtLeastZero),
    Read("scheduler.params(WarmupCosineLR).warmup_num_steps", ValueType::kInt, "1000", "optimizer steps of warm-up").In(Range::kAtLeastOne),
    Read("scheduler.params(WarmupCosineLR).cos_min_ratio", ValueType::kFloat, "0.0001", "ratio at the end").In(Range::kAtLeastZero),
    Read("scheduler.params(WarmupCosineLR).warmup_type", ValueType::kChoice, "\"log\"", "shape of the rise").OneOf("log|linear"),
    Only("scheduler.params(WarmupCosineLR).last_batch_iteration", ValueType::kInt, "-1", "the position comes from the checkpoint"),

    {.path = "zero_optimization", .type = ValueType::kStage, .action = Action::kRead, .note = "what is sharded over the data-parallel ranks; true means stage 1, false stage 0"},
    Read("zero_optimization.stage", ValueType::kInt, "0", "0: nothing; 1: optimizer state and master; 2: and gradients; 3: and parameters").In(Range::kStages),
    Hint("zero_optimization.reduce_bucket_size", ValueType::kInt, "5e8", kWholeUnits).In(Range::kAtLeastOne),
    Hint("zero_optimization.allgather_bucket_size", ValueType::kInt, "5e8", kWholeUnits).In(Range::kAtLeastOne),
    Hint("zero_optimization.stage3_prefetch_bucket_size", ValueType::kInt, "5e7", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.stage3_param_persistence_threshold", ValueType::kInt, "1e5", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.stage3_model_persistence_threshold", ValueType::kInt, "9223372036854775807", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.stage3_max_live_parameters", ValueType::kInt, "1e9", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.stage3_max_reuse_distance", ValueType::kInt, "1e9", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.stage3_module_granularity_threshold", ValueType::kInt, "0", kWholeUnits).In(Range::kAtLeastZero),
    Hint("zero_optimization.sub_group_size", ValueType::kInt, "1e9", kWholeUnits).In(Range::kAtLeastOne),
    Hint("zero_optimization.contiguous_gradients", ValueType::kBool, "true", kOneSchedule),
    Hint("zero_optimization.reduce_scatter", ValueType::kBool, "true", "has no effect: stages 1 to 3 always reduce-scatter"),
    Hint("zero_optimization.use_multi_rank_bucket_allreduce", ValueType::kBool, "true", kOneSchedule),
    Hint("zero_optimization.allgather_partitions", ValueType::kBool, "true", kOneSchedule),
    Hint("zero_optimization.overlap_comm", ValueType::kBool, "null", "has no effect: communication always overlaps computation"),
    Hint("zero_optimization.load_from_fp32_weights", ValueType::kBool, "true", "has no effect: the master copy is always restored from the checkpoint's"),
    Hint("zero_optimization.round_robin_gradients", ValueType::kBool, "false", kOneSchedule),
    Hint("zero_optimization.stage3_gather_16bit_weights_on_model_save", ValueType::kBool, "false", "has no effect: engine.full_state_dict() gathers whenever it is asked"),
    Hint("zero_optimization.stage3_use_all_reduce_for_fetch_params", ValueType::kBool, "false", kOneSchedule),
    Hint("zero_optimization.stage3_allgather_sequential", ValueType::kBool, "false", kOneSchedule),
    Hint("zero_optimization.memory_efficient_linear", ValueType::kBool, "true", "has no effect: no layer is replaced"),
    Hint("zero_optimization.pipeline_loading_checkpoint", ValueType::kBool, "false", kOneSchedule),
    Hint("zero_optimization.override_module_apply", ValueType::kBool, "true", "has no effect: no method of the module is replaced"),
    Hint("zero_optimization.log_trace_cache_warnings", ValueType::kBool, "false", "has no effect: changes of order are always counted"),
    Hint("zero_optimization.parameter_alignment", ValueType::kBool, "false", "has no effect: every parameter's slice is aligned to 256 bytes"),
    Only("zero_optimization.compute_grad_norm", ValueType::kBool, "true", "the norm is always computed: it decides whether a step is applied"),
    Only("zero_optimization.ignore_unused_parameters", ValueType::kBool, "true", "unused parameters are always allowed and skipped"),
    Only("zero_optimization.enable_sanity_checks", ValueType::kBool, "false", "set shoal.debug instead"),
    Only("zero_optimization.elastic_checkpoint", ValueType::kBool, "false", "DeepSpeed's elastic checkpoints are not written"),
    Only("zero_optimization.legacy_stage1", ValueType::kBool, "false", "DeepSpeed removed its old stage 1"),
    Only("zero_optimization.zero_hpz_partition_size", ValueType::kInt, "1", "secondary partitions are not implemented; see shoal.mesh.dp = [replicate, shard]"),
    Only("zero_optimization.zero_quantized_weights", ValueType::kBool, "false", kNoQuantizedComm),
    Only("zero_optimization.zero_quantized_nontrainable_weights", ValueType::kBool, "false", kNoQuantizedComm),
    Only("zero_optimization.zero_quantized_gradients", ValueType::kBool, "false", kNoQuantizedComm),
    Only("zero_optimization.zeropp_loco_param", ValueType::kAny, "null", kNoQuantizedComm),
    Only("zero_optimization.mics_shard_size", ValueType::kInt, "-1", "shard inside a node with shoal.mesh.dp = [replicate, shard] instead"),
    Only("zero_optimization.mics_hierarchical_params_gather", ValueType::kBool, "false", "hierarchical gathers are not implemented"),
    Only("zero_optimization.save_muon_momentum_buffer_in_memory", ValueType::kBool, "false", "Muon is not implemented"),
    Only("zero_optimization.leaf_module", ValueType::kAny, "null", "choose units with the engine's argument instead"),
    Only("zero_optimization.zenflow", ValueType::kAny, "null", "ZenFlow is not implemented"),
    Only("zero_optimization.cpu_offload", ValueType::kBool, "false", kNoOffload),
    Only("zero_optimization.cpu_offload_param", ValueType::kBool, "false", kNoOffload),
    Only("zero_optimization.cpu_offload_params", ValueType::kBool, "false", kNoOffload),
    Hint("zero_optimization.cpu_offload_use_pin_memory", ValueType::kBool, "false", kWithOffload),
    Section("zero_optimization.offload_optimizer", "optimizer state in host memory"),
    Only("zero_optimization.offload_optimizer.device", ValueType::kChoice, "\"none\"", kNoOffload).OneOf("none"),
    Off("zero_optimization.offload_optimizer.nvme_path", kWithOffload),
    Off("zero_optimization.offload_optimizer.buffer_count", kWithOffload),
    Off("zero_optimization.offload_optimizer.pin_memory", kWithOffload),
    Off("zero_optimization.offload_optimizer.pipeline_read", kWithOffload),
    Off("zero_optimization.offload_optimizer.pipeline_write", kWithOffload),
    Off("zero_optimization.offload_optimizer.fast_init", kWithOffload),
    Off("zero_optimization.offload_optimizer.ratio", kWithOffload),
    Off("zero_optimization.offload_optimizer.super_offload", kWithOffload),
    Off("zero_optimization.offload_optimizer.cpuadam_cores_perc", kWithOffload),
    Section("zero_optimization.offload_param", "parameters in host memory"),
    Only("zero_optimization.offload_param.device", ValueType::kChoice, "\"none\"", kNoOffload).OneOf("none"),
    Off("zero_optimization.offload_param.nvme_path", kWithOffload),
    Off("zero_optimization.offload_param.buffer_count", kWithOffload),
    Off("zero_optimization.offload_param.buffer_size", kWithOffload),
    Off("zero_optimization.offload_param.max_in_cpu", kWithOffload),
    Off("zero_optimization.offload_param.pin_memory", kWithOffload),

    Section("shoal", "Shoal's own keys; their presence, even as {}, chooses Shoal's defaults"),
    Section("shoal.mesh", "sizes of the mesh's axes"),
    Read("shoal.mesh.pp", ValueType::kInt, "1", "pipeline stages").In(Range::kAtLeastOne),
    Read("shoal.mesh.dp", ValueType::kAxis, "null", "data-parallel size, or [replicate, shard]; null: what the world leaves").In(Range::kAtLeastOne),
    Read("shoal.mesh.ep", ValueType::kInt, "1", "expert-parallel size; divides dp").In(Range::kAtLeastOne),
    Read("shoal.mesh.sp", ValueType::kInt, "1", "sequence-parallel size").In(Range::kAtLeastOne),
    Read("shoal.mesh.tp", ValueType::kInt, "1", "tensor-parallel size").In(Range::kAtLeastOne),
    Read("shoal.compute_dtype", ValueType::kDType, "\"fp32\"", "dtype of forward and backward").Shoal("\"bf16\""),
    Read("shoal.master_dtype", ValueType::kDType, "null", "dtype of master weights and optimizer state: float32 or float64; null: float64 for float64 compute, else float32"),
    Read("shoal.reduce_dtype", ValueType::kDType, "null", "dtype in which gradients are reduced; null: the compute dtype"),
    Read("shoal.accumulate_dtype", ValueType::kDType, "null", "dtype of the gradient accumulator; null: the master dtype"),
    Read("shoal.reduce_group", ValueType::kChoice, "\"separate\"", "process groups of gathers and reduces").OneOf("separate|shared"),
    Read("shoal.accumulate", ValueType::kChoice, "\"reduced\"", "stage 3 accumulates reduced shards, or whole gradients until the boundary").OneOf("reduced|unreduced"),
    Read("shoal.deterministic", ValueType::kBool, "false", "identical bits from run to run"),
    Read("shoal.non_finite", ValueType::kChoice, "\"skip\"", "a step with a non-finite gradient norm is skipped, or raises").OneOf("skip|raise"),
    Read("shoal.timeout_s", ValueType::kFloat, "600", "seconds until an unanswered collective is an error").In(Range::kAboveZero),
    Read("shoal.debug", ValueType::kBool, "false", "compare the ranks' order of operations at every gather"),
});
// clang-format on

}  // namespace shoal::config::rows
