#include "shoal/bindings/tensor_tree.h"

#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstddef>
#include <vector>

namespace shoal::bindings {
namespace {

namespace nb = nanobind;

bool IsDataclass(nb::handle value) {
  PyTypeObject* type = Py_TYPE(value.ptr());
  return !PyType_Check(value.ptr()) &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__dataclass_fields__") == 1;
}

// Plain tuples, lists and dicts: types whose constructor takes their items.
bool IsReplaceable(nb::handle value) {
  return PyTuple_CheckExact(value.ptr()) || PyList_CheckExact(value.ptr()) ||
         PyDict_CheckExact(value.ptr());
}

bool RequiresGrad(nb::handle value) {
  return THPVariable_Check(value.ptr()) && THPVariable_Unpack(value.ptr()).requires_grad();
}

template <typename Visit>
void ForEachItem(nb::handle value, Visit visit) {
  PyObject* object = value.ptr();
  if (PyTuple_Check(object)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(object);
    for (Py_ssize_t i = 0; i < size; ++i) visit(nb::handle(PyTuple_GET_ITEM(object, i)));
  } else if (PyList_Check(object)) {
    const Py_ssize_t size = PyList_GET_SIZE(object);
    for (Py_ssize_t i = 0; i < size; ++i) visit(nb::handle(PyList_GET_ITEM(object, i)));
  } else if (PyDict_Check(object)) {
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &item) != 0) visit(nb::handle(item));
  }
}

}  // namespace

void CollectGradTensors(nb::handle value, std::vector<at::Tensor>& tensors) {
  if (THPVariable_Check(value.ptr())) {
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    if (tensor.requires_grad()) tensors.push_back(tensor);
    return;
  }
  ForEachItem(value, [&tensors](nb::handle item) { CollectGradTensors(item, tensors); });
  if (PyDict_Check(value.ptr()) || !IsDataclass(value)) return;
  const nb::dict fields = nb::borrow<nb::dict>(nb::getattr(value, "__dataclass_fields__"));
  for (const auto& [name, field] : fields) {
    if (nb::hasattr(value, name)) CollectGradTensors(nb::getattr(value, name), tensors);
  }
}

void CollectReplaceable(nb::handle value, std::vector<at::Tensor>& tensors) {
  if (RequiresGrad(value)) {
    tensors.push_back(THPVariable_Unpack(value.ptr()));
  } else if (IsReplaceable(value)) {
    ForEachItem(value, [&tensors](nb::handle item) { CollectReplaceable(item, tensors); });
  }
}

nb::object ReplaceTensors(nb::handle value, const std::vector<at::Tensor>& tensors, size_t& next) {
  if (RequiresGrad(value)) return nb::steal(THPVariable_Wrap(tensors[next++]));
  if (!IsReplaceable(value)) return nb::borrow(value);
  const size_t before = next;
  if (PyDict_CheckExact(value.ptr())) {
    nb::dict copy;
    for (const auto& [key, item] : nb::borrow<nb::dict>(value)) {
      copy[key] = ReplaceTensors(item, tensors, next);
    }
    return next == before ? nb::borrow(value) : nb::object(copy);
  }
  nb::list copy;
  ForEachItem(value, [&](nb::handle item) { copy.append(ReplaceTensors(item, tensors, next)); });
  if (next == before) return nb::borrow(value);
  return PyTuple_CheckExact(value.ptr()) ? nb::object(nb::tuple(copy)) : nb::object(copy);
}

}  // namespace shoal::bindings
