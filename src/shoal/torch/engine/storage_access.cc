// [Note: lifting the access flag] torch 2.13 has StorageImpl::clear_data_ptr_access_error_msg_;
// torch 2.11 can only set the flag. There the private member is reached through a pointer that an
// explicit template instantiation may name (the standard exempts explicit instantiations from
// access checks). The static_asserts below fail to compile where neither way exists, so that stage
// 3 is never built on a guess.
#include "shoal/torch/engine/storage_access.h"

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace shoal::engine {
namespace {

template <typename Storage>
concept CanClearFlag = requires(Storage& storage) { storage.clear_data_ptr_access_error_msg_(); };

// Gives `FlagMember()` access to the private flag through an explicit instantiation of Publish.
bool c10::StorageImpl::* FlagMember();

template <bool c10::StorageImpl::* member>
struct Publish {
  friend bool c10::StorageImpl::* FlagMember() { return member; }
};
template struct Publish<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

static_assert(CanClearFlag<c10::StorageImpl> ||
                  std::is_same_v<decltype(FlagMember()), bool c10::StorageImpl::*>,
              "this torch offers no way to lift a storage's access flag");

template <typename Storage>
void LiftFlag(Storage& storage) {
  if constexpr (CanClearFlag<Storage>) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    storage.*FlagMember() =
        false;  // the caller sets a pointer next, which refreshes the derived check
  }
}

}  // namespace

void AttachData(c10::StorageImpl& storage, void* data) {
  LiftFlag(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(data, storage.device()));
}

void AttachOwned(c10::StorageImpl& storage, const at::Tensor& owner, int64_t offset_bytes) {
  LiftFlag(storage);
  auto* context = new at::Tensor(owner);
  storage.set_data_ptr_noswap(c10::DataPtr(
      static_cast<char*>(owner.mutable_data_ptr()) + offset_bytes, context,
      [](void* tensor) { delete static_cast<at::Tensor*>(tensor); }, storage.device()));
}

void DetachData(c10::StorageImpl& storage, const std::string& message) {
  LiftFlag(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage.device()));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
}

void ForbidAccess(c10::StorageImpl& storage, const std::string& message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
}

void AllowAccess(c10::StorageImpl& storage) {
  LiftFlag(storage);
  // Setting the same pointer again refreshes the derived check.
  c10::DataPtr data = std::move(storage._mutable_data_ptr_no_checks());
  storage.set_data_ptr_noswap(std::move(data));
}

}  // namespace shoal::engine
