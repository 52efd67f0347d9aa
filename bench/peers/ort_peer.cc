// ONNX Runtime for bench/peers: ort_peer LIBONNXRUNTIME.SO MODELS
//
// The library is found at run time and never linked. Layers are one-operator models that models.py wrote into MODELS; with
// several ways to write one (QLinearMatMul, quantized Gemm), each is a file of its own and peers.py takes the best.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "bench/peers/ort_api.h"
#include "bench/peers/peer.h"

namespace lathe::peers {
namespace {

class Api {
 public:
  explicit Api(const char* library) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (get_base == nullptr) throw std::runtime_error("no OrtGetApiBase");
    version = get_base()->get_version();
    functions_ = get_base()->get_api(kOrtApiVersion);
  }
#define LATHE_ORT(name, position, parameters)                                     \
  template <class... A>                                                           \
  void name(A... a) const {                                                       \
    check(reinterpret_cast<OrtHandle(*) parameters>(functions_[position])(a...)); \
  }
  LATHE_ORT_FUNCTIONS(LATHE_ORT)
#undef LATHE_ORT
  void release(size_t position, OrtHandle handle) const { reinterpret_cast<void (*)(OrtHandle)>(functions_[position])(handle); }

  std::string version;

 private:
  void check(OrtHandle status) const {
    if (status != nullptr)
      throw std::runtime_error(reinterpret_cast<const char* (*)(OrtHandle)>(functions_[kOrtGetErrorMessage])(status));
  }
  void* const* functions_;
};

size_t element_bytes(int type) {
  if (type == kOrtS64) return 8;
  return type == kOrtF32 || type == kOrtS32 ? 4 : 1;
}

// A session with tensors of its own for all inputs and outputs.
class Session {
 public:
  Session(const Api& api, OrtHandle env, const std::string& path, uint32_t threads) : api_(api) {
    OrtHandle options;
    api_.create_options(&options);
    api_.set_optimization(options, kOrtOptimizeAll);
    api_.set_intra_threads(options, static_cast<int>(threads));
    api_.set_inter_threads(options, 1);
    api_.create_session(env, path.c_str(), options, &session_);
    api_.release(kOrtReleaseOptions, options);
    api_.cpu_memory(kOrtArenaAllocator, kOrtMemDefault, &memory_);
    api_.default_allocator(&allocator_);
    size_t inputs, outputs;
    api_.input_count(session_, &inputs);
    api_.output_count(session_, &outputs);
    for (size_t i = 0; i < inputs; ++i) add_port(i, true);
    for (size_t i = 0; i < outputs; ++i) add_port(i, false);
    inputs_ = inputs;
  }
  ~Session() {
    for (const OrtHandle value : values_) api_.release(kOrtReleaseValue, value);
    api_.release(kOrtReleaseSession, session_);
  }
  Session(const Session&) = delete;

  void run() {
    api_.run(session_, OrtHandle{}, names_.data(), values_.data(), inputs_, names_.data() + inputs_, names_.size() - inputs_,
             values_.data() + inputs_);
  }

 private:
  void add_port(size_t i, bool input) {
    char* name;
    OrtHandle type, info, value;
    int element;
    size_t rank;
    if (input) {
      api_.input_name(session_, i, allocator_, &name);
      api_.input_type(session_, i, &type);
    } else {
      api_.output_name(session_, i, allocator_, &name);
      api_.output_type(session_, i, &type);
    }
    api_.tensor_info(type, &info);
    api_.element_type(info, &element);
    api_.rank(info, &rank);
    std::vector<int64_t> dims(rank);
    api_.dims(info, dims.data(), rank);
    size_t n = 1;
    for (const int64_t d : dims) n *= static_cast<size_t>(d);
    data_.push_back(random_bytes(n * element_bytes(element) + 64));
    if (element == kOrtF32) std::memcpy(data_.back().data(), random_floats(n).data(), n * sizeof(float));
    if (element == kOrtS32 || element == kOrtS64) std::memset(data_.back().data(), 0, data_.back().size());
    api_.create_tensor(memory_, data_.back().data(), n * element_bytes(element), dims.data(), rank, element, &value);
    api_.release(kOrtReleaseType, type);
    names_.push_back(name);
    values_.push_back(value);
  }

  const Api& api_;
  OrtHandle session_, memory_, allocator_;
  size_t inputs_ = 0;
  std::vector<const char*> names_;
  std::vector<OrtHandle> values_;
  std::vector<std::vector<uint8_t>> data_;
};

class OrtPeer : public Peer {
 public:
  OrtPeer(const char* library, const char* models) : api_(library), models_(models) {
    api_.create_env(kOrtLogError, "peers", &env_);
  }
  std::string version() override { return "onnxruntime " + api_.version; }
  Run gemm(const Gemm& g, uint32_t threads) override {
    return open(models_ + "/gemm_" + type_text(g.type) + "_" + std::to_string(g.m) + "x" + std::to_string(g.n) + "x" +
                    std::to_string(g.k) + ".onnx",
                threads);
  }
  Run conv(const Conv& c, uint32_t threads) override {
    std::string name = models_ + "/conv_" + type_text(c.type);
    for (const uint32_t v : {c.h, c.w, c.c, c.oc, c.kernel, c.stride, c.pad, c.groups}) name += "_" + std::to_string(v);
    return open(name + ".onnx", threads);
  }
  Run net(const Net& net, uint32_t threads) override { return open(net.file, threads); }

 private:
  static std::string type_text(Type type) { return type == Type::kF32 ? "f32" : type == Type::kU8 ? "u8" : "s8"; }
  Run open(const std::string& path, uint32_t threads) {
    auto session = std::make_shared<Session>(api_, env_, path, threads);
    return [session] { session->run(); };
  }

  Api api_;
  std::string models_;
  OrtHandle env_;
};

}  // namespace
}  // namespace lathe::peers

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ort_peer LIBONNXRUNTIME.SO MODELS\n");
    return 2;
  }
  try {
    lathe::peers::OrtPeer peer(argv[1], argv[2]);
    return lathe::peers::serve(peer);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ort_peer: %s\n", e.what());
    return 1;
  }
}
