// Finds and replaces tensors inside the nested Python values that modules take and return.
//
// Searched: tuples (also named ones), lists, dicts (also subclasses such as transformers'
// ModelOutput) and dataclasses. Replaced inside: tuples, lists and dicts, which are rebuilt only
// when a tensor in them was replaced; other containers are left alone, and tensors inside them are
// not replaced.
//
// Thread-safety: the caller holds the GIL.
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

#include <vector>

namespace shoal::bindings {

// Appends every tensor in `value` that requires grad.
void CollectGradTensors(nanobind::handle value, std::vector<at::Tensor>& tensors);

// Appends the tensors in `value` that require grad and that ReplaceTensors can replace, in its
// order.
void CollectReplaceable(nanobind::handle value, std::vector<at::Tensor>& tensors);

// `value` with its i-th replaceable tensor replaced by tensors[next++].
nanobind::object ReplaceTensors(nanobind::handle value, const std::vector<at::Tensor>& tensors,
                                size_t& next);

}  // namespace shoal::bindings
