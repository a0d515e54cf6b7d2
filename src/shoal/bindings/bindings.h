// One function per area; module.cc calls them all. Each fills `shoal._core`.
#pragma once

#include <nanobind/nanobind.h>

namespace shoal::bindings {

void BindMesh(nanobind::module_& m);
void BindConfig(nanobind::module_& m);
void BindOptim(nanobind::module_& m);
void BindCheckpoint(nanobind::module_& m);
void BindEngine(nanobind::module_& m);

}  // namespace shoal::bindings
