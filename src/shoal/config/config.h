// Config: the effective, typed configuration of one engine, and how it is read from text.
//
// Two dialects of one schema (schema.h, docs/config.md):
//   - a document with a top-level "shoal" object uses Shoal's defaults (bf16 compute, fp32 master,
//   no clipping);
//   - any other document is DeepSpeed JSON with DeepSpeed's defaults (fp32 compute, clipping 1.0).
//
// Goals: every value that the engine reads is typed and checked here, once; all faults of a
// document come in one report; nothing that a user asked for is dropped in silence (it works, is
// refused, or is explained in a note). Non-goals: process groups, devices, world size. Whatever
// needs them takes them as arguments (ResolveBatch).
//
// Failure modes: one Status for all faults, operation "config", one line per fault:
//   [config] ds_config.json: 2 faults
//   ds_config.json:12:5 zero_optimization.stagee: unknown key; did you mean "stage"?
//   ds_config.json:20:3 optimizer.params.lr: must be a number, found the text "fast"
// Its code is Unsupported when every fault is a legal request that is not implemented, else
// InvalidArgument.
//
// Thread-safety: values and pure functions. Nothing here touches a device, a thread or the
// environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::config {

// Which set of defaults a document asked for.
enum class Dialect {
  kShoal,      // It has a top-level "shoal" object.
  kDeepSpeed,  // It has none.
};

// Sizes of the mesh's axes as written; the mesh itself checks them against the world and refuses
// what it lacks.
struct MeshConfig {
  int64_t pp = 1;
  std::optional<int64_t> dp;            // Shards. Unset: whatever the world leaves.
  std::optional<int64_t> dp_replicate;  // Set when "dp" was written [replicate, shard].
  int64_t ep = 1;
  int64_t sp = 1;
  int64_t tp = 1;
};

// The optimizer as named in the document.
enum class OptimizerKind {
  kNone,   // No "optimizer" section: the engine gets one from the caller, or has none (evaluation).
  kAdamW,  // Adam moments; decoupled_weight_decay is always true.
  kAdam,   // Adam moments; decoupled_weight_decay says which decay (DeepSpeed's "Adam" decouples by
           // default).
  kSgd,    // Stochastic gradient descent with optional momentum, as torch.optim.SGD.
};

// Hyper-parameters of every kind; those that a kind does not read keep these defaults.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kNone;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  bool bias_correction = true;
  bool decoupled_weight_decay = false;
};

enum class SchedulerKind {
  kNone,            // The learning rate stays what the optimizer says.
  kWarmupLR,        // Rises from warmup_min_lr to warmup_max_lr, then constant.
  kWarmupDecayLR,   // The same, then linearly to 0 at total_num_steps.
  kWarmupCosineLR,  // Multiplies the group's rate: warmup_min_ratio up to 1, then a cosine to
                    // cos_min_ratio.
};

struct SchedulerConfig {
  SchedulerKind kind = SchedulerKind::kNone;
  double warmup_min_lr = 0.0;           // kWarmupLR, kWarmupDecayLR
  std::optional<double> warmup_max_lr;  // kWarmupLR, kWarmupDecayLR. Unset: the group's lr.
  int64_t warmup_num_steps = 1000;      // >= 1
  bool warmup_log = true;               // false: linear
  int64_t total_num_steps = 0;          // > 0 for kWarmupDecayLR and kWarmupCosineLR
  double warmup_min_ratio = 0.0;        // kWarmupCosineLR
  double cos_min_ratio = 1e-4;          // kWarmupCosineLR
};

// Loss scaling for float16 compute.
struct Fp16Config {
  bool enabled = false;              // Equals compute_dtype == kFloat16.
  double loss_scale = 0.0;           // 0 = dynamic; else the fixed scale.
  int64_t initial_scale_power = 16;  // The dynamic scale starts at 2^initial_scale_power; 0..126.
  int64_t loss_scale_window = 1000;  // Good steps before the scale doubles.
  int64_t hysteresis = 2;            // Overflows before the scale halves.
  bool consecutive_hysteresis = false;  // Refill hysteresis after each good step.
  double min_loss_scale = 1.0;
};

// What happens to a step whose global gradient norm is not finite.
enum class NonFinite {
  kSkip,   // Skipped, counted, logged once.
  kRaise,  // An error on every rank.
};

// Process groups of gathers and reduces.
enum class ReduceGroup {
  kSeparate,  // One each, so that they overlap.
  kShared,    // One for both: less communicator memory.
};

// How stage 3 accumulates gradients over micro-batches.
enum class Accumulate {
  kReduced,    // Reduce-scattered at each micro-batch into the sharded accumulator.
  kUnreduced,  // Kept whole until the boundary: fewer bytes sent, more memory.
};

// Where an effective value comes from.
enum class Origin {
  kFile,     // Written in the document.
  kDefault,  // The dialect's default.
  kDerived,  // Follows from other values (master_dtype from compute_dtype, for example).
};

// Something a reader of the configuration should know; never a fault. `line` is 0 when it has no
// place.
struct Note {
  std::string path;  // "zero_optimization.reduce_bucket_size"
  int64_t line = 0;
  std::string text;  // one sentence
};

// One effective value, for display and for tests. Paths are those of the Shoal schema.
struct Entry {
  std::string path;
  std::string value;  // as JSON text
  Origin origin = Origin::kDefault;
  int64_t line = 0;  // 0 unless origin is kFile
};

// The whole effective configuration. Created by ParseConfigText / ParseConfigFile; a value, freely
// copied.
struct Config {
  std::string source;  // file name or "dict", for messages
  Dialect dialect = Dialect::kShoal;

  int zero_stage = 0;  // 0..3
  DType compute_dtype = DType::kBFloat16;
  DType master_dtype = DType::kFloat32;  // kFloat32 or kFloat64, at least as wide as compute_dtype
  std::optional<DType> reduce_dtype;     // Unset: the gradient's (compute) dtype.
  DType accumulate_dtype = DType::kFloat32;  // of the gradient accumulator
  ReduceGroup reduce_group = ReduceGroup::kSeparate;
  Accumulate accumulate = Accumulate::kReduced;
  bool deterministic = false;
  NonFinite non_finite = NonFinite::kSkip;
  double timeout_s = 600.0;  // seconds until an unanswered collective is an error
  bool debug = false;

  double gradient_clipping = 0.0;                      // global L2 norm; 0 = off
  std::optional<int64_t> steps_per_print;              // optimizer steps; unset = silent
  std::optional<int64_t> train_batch_size;             // samples per optimizer step, over all ranks
  std::optional<int64_t> micro_batch_size;             // samples per rank and backward
  std::optional<int64_t> gradient_accumulation_steps;  // backwards per optimizer step

  MeshConfig mesh;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  Fp16Config fp16;

  std::vector<Note> notes;       // in the document's order
  std::vector<Entry> effective;  // every value that this Config holds, in the schema's order
};

// Whether faults and notes name lines and columns.
enum class Places {
  kShow,  // "ds_config.json:12:5 zero_optimization.stagee: ..."
  kHide,  // "dict: zero_optimization.stagee: ...", for a text that the user never saw
};

// Reads one document. `source_name` stands for the file in messages ("ds_config.json", "dict").
// Syntax: JSON, also with // and /* */ comments and trailing commas; a UTF-8 byte order mark is
// skipped. Limits: 1 MiB, 64 levels; reading stops after 100 faults.
Result<Config> ParseConfigText(std::string_view text, std::string_view source_name,
                               Places places = Places::kShow);

// Reads `path`. NotFound or IoError when it cannot be read; messages name the file by its base
// name.
Result<Config> ParseConfigFile(const std::filesystem::path& path);

// The batch triple: train_batch = micro_batch x accumulation x data-parallel size.
struct BatchSizes {
  int64_t train_batch = 0;   // 0: not stated (Shoal's dialect only), the caller's loader decides
  int64_t micro_batch = 0;   // 0: not stated, likewise
  int64_t accumulation = 1;  // always >= 1
};

// Completes the batch triple: any two numbers give the third; one batch size alone means
// accumulation 1. `data_parallel_size` >= 1 counts replicas x shards (world / (pp x tp x sp)).
// `world_size_origin` says where it comes from ("process group of 8 ranks / tp 2", "argument
// world=8") and is repeated in messages. InvalidArgument names all the numbers and the nearest
// valid triples; it is an error in the DeepSpeed dialect when no batch size is given at all.
Result<BatchSizes> ResolveBatch(const Config& config, int64_t data_parallel_size,
                                std::string_view world_size_origin);

}  // namespace shoal::config
