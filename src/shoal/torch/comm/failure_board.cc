#include "shoal/torch/comm/failure_board.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include "shoal/base/status.h"

namespace shoal::comm {
namespace {

constexpr double kMaxWaitSeconds = 5.0;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::string Key(int64_t rank) { return "shoal/failed/" + std::to_string(rank); }

std::string Describe(Op op, const OpTag& tag) {
  std::string text = OpName(op);
  if (tag.unit != nullptr) text += " of unit '" + *tag.unit + "'";
  return text + ", step " + std::to_string(tag.step);
}

// The first line of a backend's message: the rest is a C++ stack.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

FailureBoard::FailureBoard(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t size,
                           double timeout_s)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      wait_s_(std::min(kMaxWaitSeconds, timeout_s)) {}

Status FailureBoard::Report(Op op, OpTag tag, const std::string& backend_error) {
  const std::string doing = Describe(op, tag);
  std::string silent;
  std::string reported;
  try {
    store_->set(Key(rank_), doing);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s_);
    std::vector<bool> seen(static_cast<size_t>(size_), false);
    seen[static_cast<size_t>(rank_)] = true;
    while (std::find(seen.begin(), seen.end(), false) != seen.end() &&
           std::chrono::steady_clock::now() < deadline) {
      for (int64_t r = 0; r < size_; ++r) {
        if (seen[static_cast<size_t>(r)] || !store_->check({Key(r)})) continue;
        seen[static_cast<size_t>(r)] = true;
        reported += "; rank " + std::to_string(r) + " failed in " + store_->get_to_str(Key(r));
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    for (int64_t r = 0; r < size_; ++r) {
      if (seen[static_cast<size_t>(r)]) continue;
      silent += (silent.empty() ? "rank " : ", rank ") + std::to_string(r);
    }
  } catch (const std::exception&) {
    silent = "the process that hosts the store (rank 0 of the job, unless a launcher hosts it)";
  }
  std::string message =
      doing + " failed on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": ";
  message += silent.empty() ? "all ranks of the group reported a failure"
                            : silent + " did not answer (exited, or stuck elsewhere)";
  message += reported + "; backend: " + FirstLine(backend_error);
  return Status::Timeout(OpName(op), message);
}

}  // namespace shoal::comm
