#include "shoal/bindings/errors.h"

#include <nanobind/nanobind.h>

#include <exception>

#include "shoal/base/status.h"
#include "shoal/torch/status_error.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;

// A class that derives from the given bases, made by type(): nb::exception allows only one base.
nb::object MakeClass(nb::module_& m, const char* name, const nb::tuple& bases, const char* doc) {
  nb::dict body;
  body["__doc__"] = doc;
  body["__module__"] = "shoal";
  nb::object type = nb::module_::import_("builtins").attr("type");
  nb::object cls = type(name, bases, body);
  m.attr(name) = cls;
  return cls;
}

// Borrowed references to the classes, which the module keeps alive.
struct Classes {
  PyObject* general;
  PyObject* invalid;
  PyObject* config;
  PyObject* checkpoint;
  PyObject* timeout;
  PyObject* unsupported;
};

PyObject* ClassOf(const Classes& classes, const StatusException& error) {
  if (error.area() == Area::kConfig) return classes.config;
  switch (error.status().code()) {
    case StatusCode::kInvalidArgument:
      return classes.invalid;
    case StatusCode::kTimeout:
      return classes.timeout;
    case StatusCode::kUnsupported:
      return classes.unsupported;
    default:
      return error.area() == Area::kCheckpoint ? classes.checkpoint : classes.general;
  }
}

}  // namespace

void BindErrors(nb::module_& m) {
  const nb::object builtins = nb::module_::import_("builtins");
  const nb::object runtime_error = builtins.attr("RuntimeError");
  const nb::object value_error = builtins.attr("ValueError");
  auto* classes = new Classes;  // lives as long as the extension module, which Python never unloads
  const nb::object general = MakeClass(m, "ShoalError", nb::make_tuple(runtime_error),
                                       "Base of every error that Shoal raises.");
  classes->general = general.ptr();
  classes->invalid =
      MakeClass(m, "InvalidArgumentError", nb::make_tuple(general, value_error),
                "An argument can never work; the message names it, the rule and the value.")
          .ptr();
  classes->config = MakeClass(m, "ConfigError", nb::make_tuple(general, value_error),
                              "The configuration is wrong; one line per fault, with its place.")
                        .ptr();
  classes->checkpoint =
      MakeClass(m, "CheckpointError", nb::make_tuple(general),
                "A checkpoint cannot be written or read; names file, tensor and rank.")
          .ptr();
  classes->timeout =
      MakeClass(m, "CollectiveTimeout", nb::make_tuple(general),
                "A rank failed or did not answer in time; names the operation and the ranks.")
          .ptr();
  classes->unsupported = MakeClass(m, "UnsupportedError", nb::make_tuple(general),
                                   "A legal request that this version or machine cannot serve.")
                             .ptr();
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* payload) {
        try {
          std::rethrow_exception(pointer);
        } catch (const StatusException& error) {
          PyErr_SetString(ClassOf(*static_cast<Classes*>(payload), error), error.what());
        } catch (const StatusError& error) {
          const StatusException plain(error.status());
          PyErr_SetString(ClassOf(*static_cast<Classes*>(payload), plain), error.what());
        }
      },
      classes);
}

}  // namespace shoal::bindings
