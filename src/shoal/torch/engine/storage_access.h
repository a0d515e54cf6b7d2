// How a parameter's storage is given memory, loses it, and says why it may not be read.
//
// A sharded parameter keeps identity, shape and strides; only its storage's data pointer is taken
// away and every later data access (kernels, numpy, dlpack, pickle, ...) raises the given message.
// Emptying the storage instead would crash kernels and make torch.save write nothing.
//
// Thread-safety: as torch's storages: none.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>

namespace shoal::engine {

// Lets `storage` read and write `data` (borrowed; the arena owns it).
void AttachData(c10::StorageImpl& storage, void* data);
// The same at owner's data + offset_bytes, and `storage` keeps `owner`'s memory alive.
void AttachOwned(c10::StorageImpl& storage, const at::Tensor& owner, int64_t offset_bytes);

// Takes the pointer away; from now on data access raises `message`.
void DetachData(c10::StorageImpl& storage, const std::string& message);

// Keeps the pointer, but data access raises `message` until AllowAccess.
void ForbidAccess(c10::StorageImpl& storage, const std::string& message);
void AllowAccess(c10::StorageImpl& storage);

}  // namespace shoal::engine
