// Passes tensors between Python and C++ without torch/extension.h (20 s and 1.6 GB per file).
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  // nanobind demands noexcept; copying a tensor's handle does not throw.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  bool from_python(handle source, uint8_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }

  static handle from_cpp(const at::Tensor& tensor, rv_policy /*policy*/,
                         cleanup_list* /*cleanup*/) noexcept {
    if (!tensor.defined()) return none().release();
    return THPVariable_Wrap(tensor);
  }
};

}  // namespace nanobind::detail
