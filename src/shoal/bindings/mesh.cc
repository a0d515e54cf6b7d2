// Mesh in Python: values only. python/shoal/mesh.py gives them the face that users see.
#include "shoal/layout/mesh.h"

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "shoal/bindings/bindings.h"
#include "shoal/bindings/errors.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;
using layout::AxisValue;
using layout::Mesh;
using layout::MeshSpec;

// {"dp": 4, "tp": 2, ...}, in mesh order.
template <typename AxisValues>
nb::typed<nb::dict, nb::str, nb::int_> ToDict(const AxisValues& values) {
  nb::dict dict;
  for (const AxisValue& value : values)
    dict[nb::str(value.axis.data(), value.axis.size())] = value.value;
  return nb::borrow<nb::typed<nb::dict, nb::str, nb::int_>>(dict);
}

void BindSpec(nb::module_& m) {
  nb::class_<MeshSpec>(m, "MeshSpec", "Axis sizes as a user asks for them.")
      .def(nb::init<>())
      .def_rw("pp", &MeshSpec::pp)
      .def_rw("dp", &MeshSpec::dp, "[]: what is left; [size]; [replicate, shard].")
      .def_rw("ep", &MeshSpec::ep)
      .def_rw("sp", &MeshSpec::sp)
      .def_rw("tp", &MeshSpec::tp)
      .def_rw("ranks", &MeshSpec::ranks, nb::arg().none(), "None: 0..world_size-1.");
}

}  // namespace

void BindMesh(nb::module_& m) {
  BindSpec(m);
  m.attr("MAX_WORLD_SIZE") = layout::kMaxWorldSize;
  nb::class_<Mesh>(m, "Mesh", "Named axes over an explicit list of ranks; immutable.")
      .def_static(
          "make",
          [](const MeshSpec& spec, int64_t world_size) {
            return ValueOrThrow(Mesh::Make(spec, world_size));
          },
          nb::arg("spec"), nb::arg("world_size"))
      .def_prop_ro("axes", [](const Mesh& mesh) { return ToDict(mesh.axes()); })
      .def_prop_ro("ranks", [](const Mesh& mesh) { return mesh.ranks(); })
      .def_prop_ro("size", &Mesh::size)
      .def_prop_ro("is_hybrid", &Mesh::is_hybrid)
      .def(
          "axis_size",
          [](const Mesh& mesh, std::string_view axis) { return ValueOrThrow(mesh.AxisSize(axis)); },
          nb::arg("axis"))
      .def(
          "slice",
          [](const Mesh& mesh, std::string_view axis) { return ValueOrThrow(mesh.Slice(axis)); },
          nb::arg("axis"))
      .def(
          "group_of",
          [](const Mesh& mesh, std::string_view axis, int64_t rank) {
            return ValueOrThrow(mesh.GroupOf(axis, rank));
          },
          nb::arg("axis"), nb::arg("rank"))
      .def(
          "coordinates_of",
          [](const Mesh& mesh, int64_t rank) {
            return ToDict(ValueOrThrow(mesh.CoordinatesOf(rank)));
          },
          nb::arg("rank"))
      .def("__contains__", &Mesh::Contains, nb::arg("rank"))
      .def("__str__", &Mesh::ToString)
      .def(nb::self == nb::self,  // NOLINT(misc-redundant-expression): nanobind's notation
           nb::sig("def __eq__(self, arg: object, /) -> bool"));
}

}  // namespace shoal::bindings
