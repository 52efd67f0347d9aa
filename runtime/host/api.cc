// lathe/model.h and lathe/session.h over the host runtime.
#include <algorithm>

#include "lathe/model.h"
#include "lathe/session.h"
#include "runtime/host/cpu.h"
#include "runtime/host/model.h"
#include "runtime/host/ports.h"

namespace lathe {
namespace {

// Records an error for the caller; `false` and an empty optional follow from it.
void report(const Error& e, std::string* error) {
  if (error != nullptr) *error = e.message;
}

TensorInfo describe_tensor(const Program& p, const ProgramTensor& t, const std::vector<std::string>& names) {
  TensorInfo info;
  info.name = t.port < names.size() ? names[t.port] : std::to_string(t.port);
  info.dtype = t.dtype;
  info.shape.rank = t.rank;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const ProgramDim& d = p.dim(t.dims[i]);
    info.shape.dims[i] = d.op == DimOp::kConst ? d.a : -1;
  }
  if ((t.flags & kTensorHasQuant) != 0) info.quant = t.quant;
  return info;
}

std::shared_ptr<const std::vector<TensorInfo>> describe_ports(const LoadedProgram& loaded, TensorKind kind,
                                                              const std::vector<std::string>& names) {
  auto infos = std::make_shared<std::vector<TensorInfo>>();
  for (const uint32_t t : port_tensors(loaded.program, kind))
    infos->push_back(describe_tensor(loaded.program, loaded.program.tensor(t), names));
  return infos;
}

std::optional<std::size_t> find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto it = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; });
  if (it == infos.end()) return std::nullopt;
  return static_cast<std::size_t>(it - infos.begin());
}

bool is_open(const TensorInfo& info) {
  return std::any_of(info.shape.dims, info.shape.dims + info.shape.rank, [](int32_t d) { return d < 0; });
}

}  // namespace

Model::Model(std::shared_ptr<const LoadedProgram> program) : program_(std::move(program)) {
  inputs_ = describe_ports(*program_, TensorKind::kInput, program_->input_names);
  outputs_ = describe_ports(*program_, TensorKind::kOutput, program_->output_names);
}

std::optional<Model> Model::open(const std::string& path, std::string* error) {
  auto program = load_program(path);
  if (program) return Model(std::move(*program));
  report(program.error(), error);
  return std::nullopt;
}

std::optional<Model> Model::from_memory(const void* bytes, std::size_t size, std::string* error) {
  auto program = load_program({static_cast<const uint8_t*>(bytes), size}, nullptr);
  if (program) return Model(std::move(*program));
  report(program.error(), error);
  return std::nullopt;
}

std::optional<std::size_t> Model::find_input(const std::string& name) const { return find(inputs(), name); }
std::optional<std::size_t> Model::find_output(const std::string& name) const { return find(outputs(), name); }

Session::Session(std::unique_ptr<HostSession> session, std::size_t inputs, std::size_t outputs)
    : session_(std::move(session)), inputs_(inputs), outputs_(outputs) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::optional<Session> Session::create(const Model& model, const SessionConfig& config, std::string* error) {
  const auto isa = config.isa.empty() ? machine_isa() : capped_isa(config.isa);
  if (!isa) {
    report(isa.error(), error);
    return std::nullopt;
  }
  const uint32_t threads = config.threads == 0 ? usable_cpus() : config.threads;
  auto host = HostSession::create(model.program_, {*isa, threads, config.padded_inputs});
  if (!host) {
    report(host.error(), error);
    return std::nullopt;
  }
  Session session(std::move(*host), model.inputs().size(), model.outputs().size());
  if (std::any_of(model.inputs().begin(), model.inputs().end(), is_open)) return session;
  std::vector<Shape> shapes;
  for (const TensorInfo& info : model.inputs()) shapes.push_back(info.shape);
  if (!session.bind(shapes, error)) return std::nullopt;
  return session;
}

bool Session::bind(const std::vector<Shape>& input_shapes, std::string* error) {
  const auto bound = session_->bind(input_shapes);
  if (!bound) report(bound.error(), error);
  return bound.has_value();
}

const Shape& Session::output_shape(std::size_t output) const { return session_->output_shape(static_cast<uint32_t>(output)); }

const void* Session::output_data(std::size_t output) const {
  const auto port = static_cast<uint32_t>(output);
  return session_->is_open(port) ? session_->output_data(port) : nullptr;
}

bool Session::run(const void* const* inputs, void* const* outputs, std::string* error) {
  const auto done = session_->run({inputs, inputs_}, {outputs, outputs_});
  if (!done) report(done.error(), error);
  return done.has_value();
}

void Session::reset() { session_->reset(); }
uint64_t Session::arena_bytes() const { return session_->arena_bytes(); }
uint64_t Session::variable_bytes() const { return session_->variable_bytes(); }

}  // namespace lathe
