// lathe/lathe.h over the C++ runtime. No exception crosses the border: memory that runs out becomes an error like any other.
#include <cstring>
#include <new>

#include "lathe/lathe.h"
#include "lathe/model.h"
#include "runtime/host/cpu.h"
#include "runtime/host/model.h"
#include "runtime/host/ports.h"

// A model's ports are described by the C++ class; the program is kept beside it for error codes.
struct lathe_model {
  std::shared_ptr<const lathe::LoadedProgram> program;
  std::vector<std::string> input_names, output_names;
  std::vector<uint32_t> inputs, outputs;  // tensors by port
};

struct lathe_session {
  std::unique_ptr<lathe::HostSession> session;
  uint32_t inputs = 0, outputs = 0;
  bool bound = false;
};

namespace {

using lathe::Code;
using lathe::Error;

void report(lathe_error* out, const Error& e) {
  if (out == nullptr) return;
  out->code = static_cast<int>(e.code);
  const size_t n = e.message.size() < sizeof out->text - 1 ? e.message.size() : sizeof out->text - 1;
  std::memcpy(out->text, e.message.data(), n);
  out->text[n] = '\0';
}

// Runs f(); an exception becomes an error and a null or zero result.
template <class F> auto guarded(lathe_error* error, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    report(error, {Code::kOutOfMemory, "out of memory"});
  } catch (const std::exception& e) {
    report(error, {Code::kInvalidArgument, e.what()});
  }
  return {};
}

std::string port_name(const std::vector<std::string>& names, uint32_t port) {
  return port < names.size() ? names[port] : std::to_string(port);
}

lathe_model* make_model(lathe::Result<std::shared_ptr<const lathe::LoadedProgram>> loaded, lathe_error* error) {
  if (!loaded) {
    report(error, loaded.error());
    return nullptr;
  }
  auto model = std::make_unique<lathe_model>();
  model->program = std::move(*loaded);
  const lathe::Program& p = model->program->program;
  model->inputs = lathe::port_tensors(p, lathe::TensorKind::kInput);
  model->outputs = lathe::port_tensors(p, lathe::TensorKind::kOutput);
  for (uint32_t i = 0; i < model->inputs.size(); ++i)
    model->input_names.push_back(port_name(model->program->input_names, i));
  for (uint32_t i = 0; i < model->outputs.size(); ++i)
    model->output_names.push_back(port_name(model->program->output_names, i));
  return model.release();
}

void describe(const lathe_model& model, uint32_t tensor, const std::string& name, lathe_tensor_info* info) {
  const lathe::Program& p = model.program->program;
  const lathe::ProgramTensor& t = p.tensor(tensor);
  *info = {};
  info->name = name.c_str();
  info->dtype = static_cast<lathe_dtype>(t.dtype);
  info->shape.rank = t.rank;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const lathe::ProgramDim& d = p.dim(t.dims[i]);
    info->shape.dims[i] = d.op == lathe::DimOp::kConst ? d.a : -1;
  }
  info->has_quant = (t.flags & lathe::kTensorHasQuant) != 0;
  info->scale = t.quant.scale;
  info->zero_point = t.quant.zero_point;
}

lathe::Shape to_shape(const lathe_shape& s) {
  lathe::Shape out;
  out.rank = s.rank;
  for (uint32_t i = 0; i < s.rank && i < lathe::kMaxRank; ++i) out.dims[i] = s.dims[i];
  return out;
}

int done(const lathe::Result<void>& result, lathe_error* error) {
  if (!result) report(error, result.error());
  return result.has_value() ? 1 : 0;
}

// Binds a model without open dims; others wait for lathe_session_bind().
bool bind_fixed(const lathe_model& model, lathe_session* session, lathe_error* error) {
  std::vector<lathe::Shape> shapes;
  for (const uint32_t t : model.inputs) {
    lathe_tensor_info info;
    describe(model, t, std::string(), &info);
    for (uint32_t i = 0; i < info.shape.rank; ++i)
      if (info.shape.dims[i] < 0) return true;
    shapes.push_back(to_shape(info.shape));
  }
  session->bound = done(session->session->bind(shapes), error) != 0;
  return session->bound;
}

}  // namespace

int lathe_version(void) { return LATHE_VERSION; }

lathe_model* lathe_model_open(const char* path, lathe_error* error) {
  return guarded(error, [&]() -> lathe_model* {
    if (path == nullptr) {
      report(error, {Code::kInvalidArgument, "path is null"});
      return nullptr;
    }
    return make_model(lathe::load_program(path), error);
  });
}

lathe_model* lathe_model_from_memory(const void* bytes, size_t size, lathe_error* error) {
  return guarded(error, [&] {
    return make_model(lathe::load_program({static_cast<const uint8_t*>(bytes), size}, nullptr), error);
  });
}

void lathe_model_free(lathe_model* model) { delete model; }

size_t lathe_model_input_count(const lathe_model* model) { return model->inputs.size(); }
size_t lathe_model_output_count(const lathe_model* model) { return model->outputs.size(); }

int lathe_model_input(const lathe_model* model, size_t index, lathe_tensor_info* info) {
  if (index >= model->inputs.size()) return 0;
  describe(*model, model->inputs[index], model->input_names[index], info);
  return 1;
}

int lathe_model_output(const lathe_model* model, size_t index, lathe_tensor_info* info) {
  if (index >= model->outputs.size()) return 0;
  describe(*model, model->outputs[index], model->output_names[index], info);
  return 1;
}

lathe_session* lathe_session_create(const lathe_model* model, const lathe_session_options* options, lathe_error* error) {
  return guarded(error, [&]() -> lathe_session* {
    const bool named = options != nullptr && options->isa != nullptr && options->isa[0] != '\0';
    const auto isa = named ? lathe::capped_isa(options->isa) : lathe::machine_isa();
    if (!isa) {
      report(error, isa.error());
      return nullptr;
    }
    const uint32_t threads = options == nullptr ? 1 : options->threads == 0 ? lathe::usable_cpus() : options->threads;
    auto host = lathe::HostSession::create(model->program, {*isa, threads, options != nullptr && options->padded_inputs != 0});
    if (!host) {
      report(error, host.error());
      return nullptr;
    }
    auto session = std::make_unique<lathe_session>();
    session->session = std::move(*host);
    session->inputs = static_cast<uint32_t>(model->inputs.size());
    session->outputs = static_cast<uint32_t>(model->outputs.size());
    return bind_fixed(*model, session.get(), error) ? session.release() : nullptr;
  });
}

void lathe_session_free(lathe_session* session) { delete session; }

int lathe_session_bind(lathe_session* session, const lathe_shape* shapes, size_t count, lathe_error* error) {
  return guarded(error, [&] {
    std::vector<lathe::Shape> list;
    for (size_t i = 0; i < count; ++i) list.push_back(to_shape(shapes[i]));
    const int ok = done(session->session->bind(list), error);
    session->bound = session->bound || ok != 0;
    return ok;
  });
}

int lathe_session_output_shape(const lathe_session* session, size_t index, lathe_shape* shape) {
  if (!session->bound || index >= session->outputs) return 0;
  const lathe::Shape& s = session->session->output_shape(static_cast<uint32_t>(index));
  *shape = {};
  shape->rank = s.rank;
  for (uint32_t i = 0; i < s.rank; ++i) shape->dims[i] = s.dims[i];
  return 1;
}

const void* lathe_session_output_data(const lathe_session* session, size_t index) {
  const auto port = static_cast<uint32_t>(index);
  return index < session->outputs && session->session->is_open(port) ? session->session->output_data(port) : nullptr;
}

int lathe_session_run(lathe_session* session, const void* const* inputs, void* const* outputs, lathe_error* error) {
  return guarded(error, [&] {
    return done(session->session->run({inputs, session->inputs}, {outputs, session->outputs}), error);
  });
}

void lathe_session_reset(lathe_session* session) { session->session->reset(); }
uint64_t lathe_session_arena_bytes(const lathe_session* session) { return session->session->arena_bytes(); }
