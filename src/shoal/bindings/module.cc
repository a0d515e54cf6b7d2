// The extension module shoal._core. Loading it registers types only: no thread, no device, no
// environment access.
#include <nanobind/nanobind.h>

#include "shoal/bindings/bindings.h"
#include "shoal/bindings/errors.h"

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the macro defines the module.
NB_MODULE(_core, m) {
  m.doc() = "Native core of Shoal; use the names of the package `shoal`.";
  shoal::bindings::BindErrors(m);
  shoal::bindings::BindMesh(m);
  shoal::bindings::BindConfig(m);
  shoal::bindings::BindOptim(m);
  shoal::bindings::BindCheckpoint(m);
  shoal::bindings::BindEngine(m);
}
