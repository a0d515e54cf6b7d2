#include "shoal/base/status.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "shoal/base/check.h"

namespace shoal {
namespace {

const std::string& EmptyString() {
  static const std::string empty;
  return empty;
}

}  // namespace

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "Ok";
    case StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case StatusCode::kNotFound:
      return "NotFound";
    case StatusCode::kCorruption:
      return "Corruption";
    case StatusCode::kIoError:
      return "IoError";
    case StatusCode::kUnsupported:
      return "Unsupported";
    case StatusCode::kOutOfMemory:
      return "OutOfMemory";
    case StatusCode::kTimeout:
      return "Timeout";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kInternal:
      return "Internal";
  }
  return "Unknown";
}

Status::Status(StatusCode code, std::string_view operation, std::string_view message)
    : state_(std::make_shared<const State>(
          State{code, std::string(operation), std::string(message), std::string()})) {
  SHOAL_CHECK(code != StatusCode::kOk, message);
}

const std::string& Status::operation() const { return ok() ? EmptyString() : state_->operation; }

const std::string& Status::message() const { return ok() ? EmptyString() : state_->message; }

Status Status::WithContext(std::string_view context) const& {
  if (ok()) return *this;
  State state = *state_;
  if (!state.context.empty()) state.context += "; ";
  state.context += context;
  Status result;
  result.state_ = std::make_shared<const State>(std::move(state));
  return result;
}

Status Status::WithContext(std::string_view context) && {
  return static_cast<const Status&>(*this).WithContext(context);
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text;
  if (!state_->operation.empty()) text = "[" + state_->operation + "] ";
  text += state_->message;
  if (!state_->context.empty()) text += " (" + state_->context + ")";
  return text;
}

bool operator==(const Status& a, const Status& b) {
  return a.code() == b.code() && a.ToString() == b.ToString();
}

}  // namespace shoal
