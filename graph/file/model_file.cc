#include "graph/file/model_file.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "graph/file/container.h"
#include "graph/file/graph_section.h"
#include "graph/file/host_sections.h"
#include "graph/file/stored_constant.h"
#include "graph/lower/load.h"
#include "graph/pass.h"
#include "lathe/version.h"
#include "runtime/host/mapped_file.h"
#include "runtime/host/model.h"

namespace lathe {
namespace {

// Key of META's entries under which the tool names itself.
constexpr char kWriterKey[] = "lathe.writer";

// One lowering of the graph, and where its WEIGHTS went.
struct LoweredPlan {
  Target target;
  ProgramImage image;
};

// What goes into one file.
class ModelWriter {
 public:
  ModelWriter(const Graph& graph, const WriteOptions& options) : graph_(graph), options_(options) {}

  Result<void> run(const Sink& sink) {
    if (options_.strip && options_.targets.empty())
      return fail(Code::kInvalidArgument, "a stripped file needs a target, else nothing can run it");
    LATHE_CHECK_OK(verify(graph_));
    for (Target t : options_.targets) {
      LATHE_CHECK_OK(add_plan(t));
    }
    std::vector<Section> sections;
    sections.push_back({SectionKind::kMeta, 0, false, write_meta(meta())});
    for (LoweredPlan& p : plans_)
      sections.push_back({SectionKind::kPlan, static_cast<uint32_t>(p.target), false, std::move(p.image.plan)});
    if (!options_.strip) {
      LATHE_CHECK_OK(store_constants());
      sections.push_back({SectionKind::kGraph, 0, true, write_graph(graph_, stored_)});
      if (!options_.calib.empty()) sections.push_back({SectionKind::kCalib, 0, false, write_calib(options_.calib)});
      if (!options_.tests.empty()) sections.push_back({SectionKind::kTests, 0, false, write_tests(options_.tests)});
    }
    return write_container(sections, weights_, sink);
  }

 private:
  Result<void> add_plan(Target target) {
    Graph copy = graph_;
    LATHE_CHECK_OK(run_passes(copy, lowering_passes()));
    LATHE_TRY(ProgramImage image, lower(copy, target, options_.sparse));
    LATHE_CHECK_OK(place_tensors(copy, image));
    plans_.push_back({target, std::move(image)});
    return {};
  }

  // Moves every stored tensor of an image into WEIGHTS, and remembers those that are a graph constant in another layout.
  Result<void> place_tensors(const Graph& lowered, ProgramImage& image) {
    auto& header = *reinterpret_cast<ProgramHeader*>(image.plan.data());
    for (uint32_t i = 0; i < header.tensor_count; ++i) {
      auto& t = *reinterpret_cast<ProgramTensor*>(image.plan.data() + header.tensor_at + i * header.tensor_bytes);
      if (t.kind != TensorKind::kConstant && t.kind != TensorKind::kVariable) continue;
      const uint8_t* from = image.weights.get() + uint64_t{t.offset_units} * kUnitBytes;
      LATHE_TRY(t.offset_units, weights_.place({reinterpret_cast<const std::byte*>(from), t.stored_bytes}, image.weights));
      if (is_graph_constant(lowered, image.tensor_values[i])) {
        const Layout layout = t.layout;
        const Bytes stored{from, t.stored_bytes};
        stored_.try_emplace(image.tensor_values[i], StoredConstant{t.offset_units, t.stored_bytes, layout,
                                                                   image.tensor_packings[i], constant_hash(layout, stored)});
      }
    }
    return {};
  }

  // Passes may have replaced constants; ids that the graph has mean the same in its lowered copy.
  bool is_graph_constant(const Graph& lowered, ValueId v) const {
    if (v >= graph_.value_count() || graph_.value(v).dead) return false;
    return graph_.value(v).constant.valid() && graph_.value(v).constant.bytes.data() == lowered.value(v).constant.bytes.data();
  }

  // Constants that no plan holds lie in canonical form.
  Result<void> store_constants() {
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(v);
      if (value.dead || !value.constant.valid() || stored_.contains(v)) continue;
      const Bytes bytes{reinterpret_cast<const uint8_t*>(value.constant.bytes.data()), value.constant.bytes.size()};
      LATHE_TRY(const uint32_t at, weights_.place(value.constant.bytes, value.constant.owner));
      stored_[v] = {at, bytes.size, Layout::kPlain, std::nullopt, constant_hash(Layout::kPlain, bytes)};
    }
    return {};
  }

  Meta meta() const {
    Meta meta;
    meta.entries = graph_.metadata;
    meta.entries[kWriterKey] = "lathe " LATHE_VERSION_TEXT;
    for (const LoweredPlan& p : plans_) {
      PlanNames names{static_cast<uint32_t>(p.target), p.image.input_names, p.image.output_names, {}, p.image.symbol_names};
      if (!options_.strip) names.steps = p.image.steps;
      meta.plans.push_back(std::move(names));
    }
    return meta;
  }

  const Graph& graph_;
  const WriteOptions& options_;
  std::vector<LoweredPlan> plans_;
  WeightsSection weights_;
  StoredConstants stored_;
};

Result<FileView> open_container(const FileBytes& file) {
  FileView view;
  const Status status = file_open(file.bytes, &view);
  if (!status.ok()) return fail(status.code, describe_file_error(status));
  return view;
}

// Prefixes errors with the file's name.
template <class T>
Result<T> named(const std::string& path, Result<T> result) {
  if (!result) return tl::unexpected<Error>(with_context(std::move(result.error()), path));
  return result;
}

Result<void> check_sums(const FileBytes& file, const FileView& view) {
  if (head_checksum(file.bytes) != view.header().checksum)
    return fail(Code::kCorrupt, "header and section table have other bytes than were written");
  for (uint32_t i = 0; i < view.section_count(); ++i) {
    const FileSection& s = view.section(i);
    if (section_checksum(view.bytes(s)) == s.checksum) continue;
    const char* name = section_name(s.kind);
    return fail(Code::kCorrupt, "section " + std::to_string(i) + " (" + (name == nullptr ? "unknown" : name) +
                                    ") has other bytes than were written");
  }
  return {};
}

Result<void> check_plans(const FileView& view) {
  for (uint32_t i = 0; i < view.section_count(); ++i) {
    const FileSection& s = view.section(i);
    if (s.kind != SectionKind::kPlan) continue;
    Program program;
    const Status status = program_open(view.bytes(s), view.find(SectionKind::kWeights), &program);
    if (!status.ok()) return fail(status.code, describe_program_error(status));
  }
  return {};
}

}  // namespace

Result<std::vector<uint8_t>> model_bytes(const Graph& graph, const WriteOptions& options) {
  std::vector<uint8_t> out;
  LATHE_CHECK_OK(ModelWriter(graph, options).run([&](std::span<const std::byte> bytes) -> Result<void> {
    const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
    out.insert(out.end(), p, p + bytes.size());
    return {};
  }));
  return out;
}

Result<void> write_model(const std::string& path, const Graph& graph, const WriteOptions& options) {
  LATHE_TRY(AtomicFile file, AtomicFile::create(path));
  Result<void> done = ModelWriter(graph, options).run([&](std::span<const std::byte> bytes) { return file.write(bytes); });
  if (!done) return done;
  return file.commit();
}

Result<FileBytes> map_file(const std::string& path) {
  LATHE_TRY(const auto file, MappedFile::open(path));
  return FileBytes{file, file->bytes()};
}

Result<ModelFile> read_model(const FileBytes& file) {
  LATHE_TRY(const FileView view, open_container(file));
  const Bytes graph = view.find(SectionKind::kGraph);
  if (graph.data == nullptr)
    return fail(Code::kUnsupported, "file has no graph: it was written with --strip and can only be run");
  ModelFile out;
  LATHE_TRY(out.graph, read_graph(graph, view.find(SectionKind::kWeights), file.owner));
  if (const Bytes meta = view.find(SectionKind::kMeta); meta.data != nullptr) {
    LATHE_TRY(Meta names, read_meta(meta));
    out.writer = names.entries[kWriterKey];
    names.entries.erase(kWriterKey);
    out.graph.metadata = std::move(names.entries);
  }
  if (const Bytes calib = view.find(SectionKind::kCalib); calib.data != nullptr) {
    LATHE_TRY(out.calib, read_calib(calib));
  }
  if (const Bytes tests = view.find(SectionKind::kTests); tests.data != nullptr) {
    LATHE_TRY(out.tests, read_tests(tests));
  }
  for (uint32_t i = 0; i < view.section_count(); ++i) {
    if (view.section(i).kind == SectionKind::kPlan) out.plan_targets.push_back(view.section(i).tag);
  }
  return out;
}

Result<std::shared_ptr<const LoadedProgram>> open_program(const FileBytes& file) {
  LATHE_TRY(const FileView view, open_container(file));
  if (view.find(SectionKind::kPlan, static_cast<uint32_t>(Target::kHost)).data != nullptr) {
    auto program = load_program(file.bytes, file.owner);
    // PLAN is a cache: one of a newer writer is passed over where the graph is there; a damaged one is an error.
    const bool newer = !program && (program.error().code == Code::kVersion || program.error().code == Code::kUnsupported);
    if (!newer || view.find(SectionKind::kGraph).data == nullptr) return program;
  }
  LATHE_TRY(const ModelFile model, read_model(file));
  return compile_for_host(model.graph);
}

Result<void> check_model_file(const FileBytes& file) {
  LATHE_TRY(const FileView view, open_container(file));
  LATHE_CHECK_OK(check_sums(file, view));
  if (const Bytes graph = view.find(SectionKind::kGraph); graph.data != nullptr) {
    LATHE_CHECK_OK(read_model(file));
    LATHE_CHECK_OK(check_constant_hashes(graph, view.find(SectionKind::kWeights)));
  }
  return check_plans(view);
}

Result<ModelFile> read_model(const std::string& path) {
  LATHE_TRY(const FileBytes file, map_file(path));
  return named(path, read_model(file));
}

Result<std::shared_ptr<const LoadedProgram>> open_program(const std::string& path) {
  LATHE_TRY(const FileBytes file, map_file(path));
  return named(path, open_program(file));
}

Result<void> check_model_file(const std::string& path) {
  LATHE_TRY(const FileBytes file, map_file(path));
  return named(path, check_model_file(file));
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& path) {
  LATHE_TRY(const FileBytes file, map_file(path));
  FileView view;
  if (const Status status = file_open(file.bytes, &view); !status.ok())
    return fail(status.code, path + ": " + describe_file_error(status));
  const Bytes section = view.find(SectionKind::kMeta);
  if (section.data == nullptr) return std::map<std::string, std::string>{};
  auto meta = read_meta(section);
  if (!meta) return tl::unexpected(with_context(std::move(meta.error()), path));
  return std::move(meta->entries);
}

}  // namespace lathe
