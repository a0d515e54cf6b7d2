// Checkpoints in Python, on addresses of host memory; python/shoal/checkpoint.py gives them their
// face and brings the ranks together. Everything here works on the operating system's files and
// runs I/O without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/bindings/bindings.h"
#include "shoal/bindings/errors.h"
#include "shoal/ckpt/latest.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/rank_file.h"
#include "shoal/ckpt/reader.h"
#include "shoal/ckpt/saving.h"
#include "shoal/ckpt/share.h"
#include "shoal/io/posix_storage.h"
#include "shoal/io/storage.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;
using ckpt::Committed;
using ckpt::PieceToWrite;
using ckpt::Reader;
using ckpt::RunInfo;
using ckpt::Saving;
using ckpt::TensorRecord;

using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

// A Saving with the storage that it borrows.
class SavingHandle {
 public:
  SavingHandle(const std::string& root, int64_t step, const std::string& save_id)
      : storage_(io::MakePosixStorage()),
        saving_(ValueOrThrow(Saving::Begin(*storage_, root, step, save_id), Area::kCheckpoint)) {}

  const std::string& tmp_dir() const { return saving_->tmp_dir(); }
  Committed Commit(const RunInfo& run, const std::vector<std::string>& records,
                   std::optional<int64_t> keep) {
    return ValueOrThrow(saving_->Commit(run, records, keep), Area::kCheckpoint);
  }
  void Abort() { ThrowIfError(saving_->Abort(), Area::kCheckpoint); }

 private:
  std::unique_ptr<io::Storage> storage_;  // outlives saving_
  std::unique_ptr<Saving> saving_;
};

// A Reader with the storage that it borrows.
class ReaderHandle {
 public:
  explicit ReaderHandle(const std::string& dir)
      : storage_(io::MakePosixStorage()),
        reader_(ValueOrThrow(Reader::Open(*storage_, dir), Area::kCheckpoint)) {}

  const Reader& operator*() const { return *reader_; }
  const Reader* operator->() const { return reader_.get(); }

  void ReadRange(std::string_view tensor, std::string_view role, int64_t begin, int64_t end,
                 uintptr_t address) const {
    const TensorRecord* record = reader_->Find(tensor, role);
    const int64_t item_bytes = record == nullptr ? 1 : DTypeBytes(record->dtype);
    const auto bytes = static_cast<size_t>(end < begin ? 0 : (end - begin) * item_bytes);
    // The address of host memory that the caller vouches for.
    auto* data = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    ThrowIfError(reader_->ReadRange(tensor, role, begin, end, std::span(data, bytes)),
                 Area::kCheckpoint);
  }
  void Verify() const { ThrowIfError(reader_->Verify(), Area::kCheckpoint); }

 private:
  std::unique_ptr<io::Storage> storage_;  // outlives reader_
  std::unique_ptr<Reader> reader_;
};

DType DTypeOf(std::string_view name) {
  const std::optional<DType> dtype = ParseDType(name);
  if (dtype.has_value()) return *dtype;
  throw StatusException(
      Status::InvalidArgument("save", "a checkpoint cannot hold dtype " + std::string(name)),
      Area::kCheckpoint);
}

// `pieces` belong to this rank alone, `replicated` to all ranks alike.
std::string WriteRank(const std::string& tmp_dir, int64_t rank, int64_t world_size,
                      std::vector<PieceToWrite> pieces, const std::vector<PieceToWrite>& replicated,
                      const std::string& state_json) {
  for (PieceToWrite& piece : ckpt::ShareOfReplicated(replicated, rank, world_size)) {
    pieces.push_back(std::move(piece));
  }
  const auto storage = io::MakePosixStorage();
  return ValueOrThrow(ckpt::WriteRankFile(*storage, tmp_dir, rank, pieces, state_json),
                      Area::kCheckpoint);
}

void BindWriting(nb::module_& m) {
  nb::class_<PieceToWrite>(m, "CheckpointPiece",
                           "Elements [begin, end) of a tensor, in host memory.")
      .def(
          "__init__",
          [](PieceToWrite* self, std::string tensor, std::string role, std::string_view dtype,
             std::vector<int64_t> shape, std::vector<int64_t> dim_order, int64_t begin, int64_t end,
             uintptr_t address) {
            new (self) PieceToWrite{
                .tensor = std::move(tensor),
                .role = std::move(role),
                .dtype = DTypeOf(dtype),
                .global_shape = std::move(shape),
                .dim_order = std::move(dim_order),
                .flat_begin = begin,
                .flat_end = end,
                // The address of host memory that the caller keeps alive.
                .data =
                    reinterpret_cast<const void*>(address),  // NOLINT(performance-no-int-to-ptr)
            };
          },
          nb::kw_only(), nb::arg("tensor"), nb::arg("role"), nb::arg("dtype"), nb::arg("shape"),
          nb::arg("dim_order"), nb::arg("begin"), nb::arg("end"), nb::arg("address"));
  nb::class_<RunInfo>(m, "CheckpointRun", "Who saves: versions, mesh, state of all ranks.")
      .def(
          "__init__",
          [](RunInfo* self, std::string shoal_version, std::string torch_version, std::string mesh,
             int64_t zero_stage, int64_t world_size, std::map<std::string, std::string> aliases,
             std::string state_json) {
            new (self) RunInfo{.shoal_version = std::move(shoal_version),
                               .torch_version = std::move(torch_version),
                               .mesh = std::move(mesh),
                               .zero_stage = zero_stage,
                               .world_size = world_size,
                               .aliases = std::move(aliases),
                               .state_json = std::move(state_json)};
          },
          nb::kw_only(), nb::arg("shoal_version"), nb::arg("torch_version"), nb::arg("mesh"),
          nb::arg("zero_stage"), nb::arg("world_size"), nb::arg("aliases"), nb::arg("state_json"))
      .def_ro("shoal_version", &RunInfo::shoal_version)
      .def_ro("torch_version", &RunInfo::torch_version)
      .def_ro("mesh", &RunInfo::mesh)
      .def_ro("zero_stage", &RunInfo::zero_stage)
      .def_ro("world_size", &RunInfo::world_size)
      .def_ro("aliases", &RunInfo::aliases)
      .def_ro("state_json", &RunInfo::state_json);
  nb::class_<Committed>(m, "CheckpointCommitted", "A complete checkpoint.")
      .def_ro("dir", &Committed::dir)
      .def_ro("warnings", &Committed::warnings);
  nb::class_<SavingHandle>(m, "CheckpointSaving", "Rank 0's part of a save; holds the lock.")
      .def(nb::init<const std::string&, int64_t, const std::string&>(), nb::kw_only(),
           nb::arg("root"), nb::arg("step"), nb::arg("save_id"), WithoutGil())
      .def_prop_ro("tmp_dir", &SavingHandle::tmp_dir)
      .def("commit", &SavingHandle::Commit, nb::arg("run"), nb::arg("records"),
           nb::arg("keep").none(), WithoutGil())
      .def("abort", &SavingHandle::Abort, WithoutGil());
  m.def("write_rank_file", &WriteRank, nb::kw_only(), nb::arg("tmp_dir"), nb::arg("rank"),
        nb::arg("world_size"), nb::arg("pieces"), nb::arg("replicated"), nb::arg("state_json"),
        WithoutGil());
}

void BindReading(nb::module_& m) {
  nb::class_<TensorRecord>(m, "CheckpointTensor", "What a checkpoint says about one tensor.")
      .def_ro("name", &TensorRecord::name)
      .def_ro("role", &TensorRecord::role)
      .def_prop_ro("dtype", [](const TensorRecord& tensor) { return DTypeName(tensor.dtype); })
      .def_ro("shape", &TensorRecord::shape)
      .def_ro("dim_order", &TensorRecord::dim_order);
  nb::class_<ReaderHandle>(m, "CheckpointReader", "Reads ranges of a checkpoint's tensors.")
      .def(nb::init<const std::string&>(), nb::arg("dir"), WithoutGil())
      .def_prop_ro("dir", [](const ReaderHandle& reader) { return reader->dir(); })
      .def_prop_ro("step", [](const ReaderHandle& reader) { return reader->manifest().step; })
      .def_prop_ro("run", [](const ReaderHandle& reader) { return reader->manifest().run; })
      .def_prop_ro("rank_states",
                   [](const ReaderHandle& reader) {
                     std::vector<std::string> states;
                     for (const auto& file : reader->manifest().files) {
                       states.push_back(file.state_json);
                     }
                     return states;
                   })
      .def_prop_ro("tensors", [](const ReaderHandle& reader) { return reader->manifest().tensors; })
      .def("read_range", &ReaderHandle::ReadRange, nb::arg("tensor"), nb::kw_only(),
           nb::arg("role"), nb::arg("begin"), nb::arg("end"), nb::arg("address"), WithoutGil())
      .def("verify", &ReaderHandle::Verify, WithoutGil());
  m.def(
      "find_latest_checkpoint",
      [](const std::string& root) {
        ckpt::Latest latest =
            ValueOrThrow(ckpt::FindLatest(*io::MakePosixStorage(), root), Area::kCheckpoint);
        return std::pair(std::move(latest.dir), std::move(latest.skipped));
      },
      nb::arg("root"), WithoutGil());
}

}  // namespace

void BindCheckpoint(nb::module_& m) {
  BindWriting(m);
  BindReading(m);
}

}  // namespace shoal::bindings
