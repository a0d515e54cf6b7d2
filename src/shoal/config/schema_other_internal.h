// Rows of the schema for DeepSpeed's features outside the training step. All of them are off here:
// a document may say so, anything else is Unsupported. Included by schema.cc only. Not installed.
#pragma once

#include <array>
#include <string_view>

#include "shoal/config/schema.h"
#include "shoal/config/schema_main_internal.h"

namespace shoal::config::rows {

constexpr KeySpec Switch(std::string_view path, std::string_view note) {
  return {.path = path, .type = ValueType::kSwitch, .action = Action::kDefaultOnly, .note = note};
}

inline constexpr std::string_view kSectionOff = "only read when its section is on, which it is not";
inline constexpr std::string_view kNoCheckpointing =
    "activation checkpointing is not configured here; use torch.utils.checkpoint in the model";
inline constexpr std::string_view kNoTracker =
    "no experiment tracker is driven by the engine; log from your loop";
inline constexpr std::string_view kNoTensorParallel =
    "automatic tensor parallelism is not implemented";
inline constexpr std::string_view kNoDeepCompile = "only read by DeepCompile, which is off";
inline constexpr std::string_view kOldCompile =
    "DeepSpeed dropped this key of its early compile section; use torch.compile on the model's "
    "blocks";

// clang-format off
inline constexpr auto kOtherRows = std::to_array<KeySpec>({
    Section("activation_checkpointing", "deepspeed.checkpointing"),
    Only("activation_checkpointing.partition_activations", ValueType::kBool, "false", kNoCheckpointing),
    Only("activation_checkpointing.number_checkpoints", ValueType::kInt, "null", kNoCheckpointing),
    Only("activation_checkpointing.contiguous_memory_optimization", ValueType::kBool, "false", kNoCheckpointing),
    Only("activation_checkpointing.cpu_checkpointing", ValueType::kBool, "false", kNoCheckpointing),
    Only("activation_checkpointing.profile", ValueType::kBool, "false", kNoCheckpointing),
    Only("activation_checkpointing.synchronize_checkpoint_boundary", ValueType::kBool, "false", kNoCheckpointing),

    Section("aio", "asynchronous file reads and writes of NVMe offload"),
    Off("aio.block_size", kWithOffload),
    Off("aio.queue_depth", kWithOffload),
    Off("aio.intra_op_parallelism", kWithOffload),
    Off("aio.thread_count", kWithOffload),
    Off("aio.single_submit", kWithOffload),
    Off("aio.overlap_events", kWithOffload),
    Off("aio.use_gds", kWithOffload),

    Section("checkpoint", "writing of checkpoints"),
    Hint("checkpoint.tag_validation", ValueType::kChoice, "\"Warn\"", "has no effect: ranks always agree on the checkpoint's name").OneOf("Warn|Ignore|Fail"),
    Only("checkpoint.load_universal", ValueType::kBool, "false", "DeepSpeed's universal checkpoints are not read yet"),
    Only("checkpoint.use_node_local_storage", ValueType::kBool, "false", "checkpoints need a directory that all ranks share"),
    Hint("checkpoint.checkpoint_serialization", ValueType::kBool, "true", "has no effect: checkpoints are never pickled"),
    Only("checkpoint.writer", ValueType::kAny, "null", "there is one writer"),
    Section("checkpoint.parallel_write", "parallel writing"),
    Hint("checkpoint.parallel_write.pipeline_stage", ValueType::kBool, "false", "has no effect: every rank writes its own shards"),
    Section("nebula", "Azure's checkpoint service"),
    Only("nebula.enabled", ValueType::kBool, "false", "Nebula is not supported"),
    Off("nebula.persistent_storage_path", kSectionOff),
    Off("nebula.persistent_time_interval", kSectionOff),
    Off("nebula.num_of_version_in_retention", kSectionOff),
    Off("nebula.enable_nebula_load", kSectionOff),
    Off("nebula.nebula_load_path", kSectionOff),
    Switch("datastates_ckpt", "DataStates checkpoints are not supported"),

    Section("tensor_parallel", "automatic tensor parallelism"),
    Only("tensor_parallel.autotp_size", ValueType::kInt, "0", kNoTensorParallel).OneOf("1"),
    Section("tensor_parallel.tp", "its group"),
    Only("tensor_parallel.tp.tp_size", ValueType::kInt, "1", kNoTensorParallel),
    Off("tensor_parallel.tp.tp_grain_size", kSectionOff),
    Only("tensor_parallel.tp.mpu", ValueType::kAny, "null", kNoTensorParallel),
    Only("tensor_parallel.tp.tp_group", ValueType::kAny, "null", kNoTensorParallel),
    Off("tensor_parallel.dtype", kSectionOff),
    Off("tensor_parallel.tp_overlap_comm", kSectionOff),
    Off("tensor_parallel.vocab_parallel_ce_backend", kSectionOff),
    Off("tensor_parallel.vocab_parallel_lm_head", kSectionOff),
    Off("tensor_parallel.partition_config", kSectionOff),
    Off("tensor_parallel.preset_model", kSectionOff),
    Off("tensor_parallel.injection_policy_tuple", kSectionOff),
    Off("tensor_parallel.keep_module_on_host", kSectionOff),
    Off("tensor_parallel.replace_with_kernel_inject", kSectionOff),
    Switch("expert_parallel", "expert parallelism is not implemented"),

    Section("pipeline", "DeepSpeed's PipelineModule"),
    Only("pipeline.stages", ValueType::kAny, "\"auto\"", "pipeline parallelism is not implemented").OneOf("1"),
    Off("pipeline.partition", kSectionOff),
    Off("pipeline.seed_layers", kSectionOff),
    Off("pipeline.activation_checkpoint_interval", kSectionOff),
    Off("pipeline.pipe_partitioned", kSectionOff),
    Off("pipeline.grad_partitioned", kSectionOff),

    Section("compile", "DeepCompile"),
    Only("compile.deepcompile", ValueType::kBool, "false", "DeepCompile is not implemented; use torch.compile on the model's blocks"),
    Off("compile.passes", kNoDeepCompile),
    Off("compile.free_activation", kNoDeepCompile),
    Off("compile.free_activation_threshold", kNoDeepCompile),
    Off("compile.offload_activation", kNoDeepCompile),
    Off("compile.offload_activation_pin_memory", kNoDeepCompile),
    Off("compile.autoep_non_moe", kNoDeepCompile),
    Off("compile.offload_opt_states", kNoDeepCompile),
    Off("compile.offload_parameters", kNoDeepCompile),
    Off("compile.double_buffer", kNoDeepCompile),
    Off("compile.symmetric_memory", kNoDeepCompile),
    Off("compile.debug_log", kNoDeepCompile),
    Off("compile.sync_before_reduce", kNoDeepCompile),
    Off("compile.sync_after_reduce", kNoDeepCompile),
    Off("compile.sync_before_allgather", kNoDeepCompile),
    Off("compile.sync_after_allgather", kNoDeepCompile),
    Off("compile.keep_int_input_tensors", kNoDeepCompile),
    Off("compile.keep_all_input_tensors", kNoDeepCompile),
    Refused("compile.backend", kOldCompile),
    Refused("compile.disable", kOldCompile),
    Refused("compile.enabled", kOldCompile),
    Refused("compile.kwargs", kOldCompile),

    Section("flops_profiler", "DeepSpeed's profiler of operations"),
    Only("flops_profiler.enabled", ValueType::kBool, "false", "operations are not counted; use torch.utils.flop_counter"),
    Off("flops_profiler.recompute_fwd_factor", kSectionOff),
    Off("flops_profiler.profile_step", kSectionOff),
    Off("flops_profiler.module_depth", kSectionOff),
    Off("flops_profiler.top_modules", kSectionOff),
    Off("flops_profiler.detailed", kSectionOff),
    Off("flops_profiler.output_file", kSectionOff),
    Section("comms_logger", "a log of communication"),
    Only("comms_logger.enabled", ValueType::kBool, "false", "communication is not logged; use torch.profiler"),
    Off("comms_logger.verbose", kSectionOff),
    Off("comms_logger.prof_all", kSectionOff),
    Off("comms_logger.debug", kSectionOff),
    Off("comms_logger.prof_ops", kSectionOff),
    Section("tensorboard", "TensorBoard"),
    Only("tensorboard.enabled", ValueType::kBool, "false", kNoTracker),
    Off("tensorboard.output_path", kSectionOff),
    Off("tensorboard.job_name", kSectionOff),
    Section("csv_monitor", "CSV files"),
    Only("csv_monitor.enabled", ValueType::kBool, "false", kNoTracker),
    Off("csv_monitor.output_path", kSectionOff),
    Off("csv_monitor.job_name", kSectionOff),
    Section("wandb", "Weights & Biases"),
    Only("wandb.enabled", ValueType::kBool, "false", kNoTracker),
    Off("wandb.group", kSectionOff),
    Off("wandb.team", kSectionOff),
    Off("wandb.project", kSectionOff),
    Switch("comet", kNoTracker),
    Section("timers", "DeepSpeed's timers"),
    Section("timers.throughput", "its throughput timer"),
    Hint("timers.throughput.enabled", ValueType::kBool, "true", "has no effect: throughput is not timed"),
    Hint("timers.throughput.synchronized", ValueType::kBool, "true", "has no effect: the engine never synchronises the device to take time"),

    Switch("elasticity", "elastic batch sizes are not implemented"),
    Switch("autotuning", "there is no tuner"),
    Switch("hybrid_engine", "there is no hybrid engine"),
    Switch("progressive_layer_drop", "progressive layer drop is not implemented"),
    Switch("curriculum_learning", "curriculum learning is not implemented"),
    Switch("data_efficiency", "data efficiency is not implemented"),
    Switch("compression_training", "compression is not implemented"),
    Switch("quantize_training", "quantised training is not implemented"),
    Switch("weight_quantization", "weight quantisation is not implemented"),
    Switch("sparse_attention", "sparse attention is not chosen by the configuration"),
    Switch("eigenvalue", "eigenvalues are not computed"),
});
// clang-format on

inline constexpr auto kAliasRows = std::to_array<KeyAlias>({
    {"bfloat16", "bf16"},
    {"zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"},
    {"zero_optimization.param_persistence_threshold",
     "zero_optimization.stage3_param_persistence_threshold"},
    {"zero_optimization.model_persistence_threshold",
     "zero_optimization.stage3_model_persistence_threshold"},
    {"zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"},
    {"zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance"},
    {"zero_optimization.module_granularity_threshold",
     "zero_optimization.stage3_module_granularity_threshold"},
    {"zero_optimization.gather_16bit_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization.use_all_reduce_for_fetch_params",
     "zero_optimization.stage3_use_all_reduce_for_fetch_params"},
    {"tensor_parallel.tensor_parallel", "tensor_parallel.tp"},
});

}  // namespace shoal::config::rows
