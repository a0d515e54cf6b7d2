// Construction of an Engine: units, arena, optimizer state, hooks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/executor.h"
#include "shoal/base/heap.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/plan/arena_plan.h"
#include "shoal/torch/engine/build.h"
#include "shoal/torch/engine/engine.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

// Classes of scratch for reduce-scatters, beside the gradient slots that they drain.
std::vector<SlotClass> ScratchClasses(const std::vector<std::unique_ptr<Unit>>& units,
                                      const plan::ArenaPlan& arena) {
  std::map<int64_t, int64_t> slots_by_bytes;
  for (size_t i = 0; i < units.size(); ++i) {
    const int64_t bytes = units[i]->scratch_bytes;
    const int64_t index = arena.grad_class_of_unit[i];
    if (bytes == 0 || index < 0) continue;
    const int64_t slots = arena.grad_classes[static_cast<size_t>(index)].num_slots;
    slots_by_bytes[bytes] = std::max(slots_by_bytes[bytes], std::min<int64_t>(slots, 2));
  }
  std::vector<SlotClass> classes;
  classes.reserve(slots_by_bytes.size());
  for (const auto& [bytes, slots] : slots_by_bytes)
    classes.push_back({kScratchSlots, bytes, slots});
  return classes;
}

}  // namespace

std::shared_ptr<Engine> Engine::Create(const Options& options, const std::vector<UnitDef>& units,
                                       const std::vector<at::Tensor>& buffers,
                                       std::unique_ptr<Executor> executor,
                                       std::unique_ptr<comm::Collectives> collectives) {
  std::shared_ptr<Engine> engine(new Engine(options));
  engine->executor_ = std::move(executor);
  engine->collectives_ = std::move(collectives);
  engine->Initialise(units, buffers);
  return engine;
}

void Engine::Initialise(const std::vector<UnitDef>& units, const std::vector<at::Tensor>& buffers) {
  Prepared prepared = Prepare(options_, units, buffers, *collectives_);
  units_ = std::move(prepared.units);
  num_trainable_ = prepared.num_trainable;
  calls_.resize(units_.size());
  MakeArena();
  reducer_ = std::make_unique<Reducer>(&units_, collectives_.get(), arena_.get(), &hash_, options_);
  gatherer_ =
      std::make_unique<Gatherer>(&units_, collectives_.get(), arena_.get(), &hash_,
                                 Gatherer::Settings{options_.zero_stage, collectives_->size() > 1});
  stepper_ = std::make_unique<Stepper>(&units_, collectives_.get(), executor_.get(), &options_,
                                       num_trainable_);
  stepper_->AllocateStates();
  if (options_.loss_scale) loss_scaler_ = std::make_unique<optim::LossScaler>(*options_.loss_scale);

  prepared.units = std::move(units_);
  Install(options_, prepared);
  units_ = std::move(prepared.units);
  ReleaseFreeHeap();  // what the model's own tensors and the staging buffers left behind
  if (options_.groups.empty()) return;
  for (const auto& unit : units_) {
    for (size_t i = 0; i < unit->params.size(); ++i) {
      if (!unit->params[i].trainable) continue;
      gradient_hooks_.push_back(std::make_unique<GradientHook>(
          unit->params[i].tensor, weak_from_this(), unit->id, static_cast<int64_t>(i)));
    }
  }
}

void Engine::MakeArena() {
  std::vector<plan::UnitMemory> demands;
  demands.reserve(units_.size());
  const bool trains = !options_.groups.empty();
  for (const auto& unit : units_) {
    demands.push_back({unit->name, unit->layout.total_bytes, trains ? unit->grad_bytes : 0});
  }
  plan::ArenaOptions plan_options;
  plan_options.zero_stage = options_.zero_stage;
  plan_options.prefetch_depth = options_.prefetch_depth;
  const plan::ArenaPlan plan = ValueOrThrow(plan::PlanArena(demands, plan_options));
  std::vector<SlotClass> classes;
  classes.reserve(plan.param_classes.size() + plan.grad_classes.size());
  for (const plan::SizeClass& size : plan.param_classes) {
    classes.push_back({kParameterSlots, size.slot_bytes, size.num_slots});
  }
  // Buffers that are reduced at the boundary are the units' own; slots then only serve a cast.
  const bool own_buffers = WhenToReduce(options_) == ReduceWhen::kAtBoundary;
  const bool casts =
      options_.accumulation > 1 && options_.accumulate_dtype != options_.reduce_dtype;
  for (const plan::SizeClass& size : plan.grad_classes) {
    if (!own_buffers || casts) classes.push_back({kGradientSlots, size.slot_bytes, size.num_slots});
  }
  for (SlotClass& scratch : ScratchClasses(units_, plan)) classes.push_back(std::move(scratch));
  arena_ = std::make_unique<Arena>(options_.device, std::move(classes));
  arena_plan_.clear();
  for (const SlotClass& slots : arena_->classes()) {
    arena_plan_ += slots.purpose + ": " + std::to_string(slots.num_slots) + " x " +
                   std::to_string(slots.bytes) + " bytes\n";
  }
  arena_plan_ += "total: " + std::to_string(arena_->planned_bytes()) + " bytes\n";
}

Engine::~Engine() {
  // Parameters outlive the engine: none may point into the arena.
  for (const auto& unit : units_) {
    if (unit->slot != nullptr && unit->residency == Residency::kUnsharded) DetachUnit(*unit);
  }
}

}  // namespace shoal::engine
