// XNNPACK for bench/peers: layers through its operator API (8 bit: qs8 with weights per channel), networks through its subgraphs.
#include <map>

#include "bench/peers/xnnpack_network.h"
#include "tools/model.h"

namespace lathe::peers {
namespace {

constexpr int8_t kInputZero = 3, kOutputZero = 7;
constexpr float kInputScale = 0.02f, kWeightScale = 0.003f, kOutputScale = 0.5f;

// An operator with its buffers; T: element type of input, weights and output.
template <class T, class Bias>
struct Layer {
  Layer(size_t in, size_t weights, size_t channels, size_t out)
      : x(in + XNN_EXTRA_BYTES),
        w(weights + XNN_EXTRA_BYTES),
        y(out + XNN_EXTRA_BYTES),
        bias(channels),
        scales(channels, kWeightScale) {
    fill(&x);
    fill(&w);
  }
  ~Layer() { xnn_delete_operator(op); }
  static void fill(std::vector<int8_t>* v) {
    const auto bytes = random_bytes(v->size());
    v->assign(bytes.begin(), bytes.end());
  }
  static void fill(std::vector<float>* v) { *v = random_floats(v->size()); }

  std::vector<T> x, w, y;
  std::vector<Bias> bias;
  std::vector<float> scales;
  std::vector<uint8_t> workspace;
  xnn_operator_t op = nullptr;
};
using LayerS8 = Layer<int8_t, int32_t>;
using LayerF32 = Layer<float, float>;

class XnnpackPeer : public Peer {
 public:
  XnnpackPeer() { check(xnn_initialize(nullptr), "initialize"); }
  std::string version() override { return "xnnpack"; }

  Run gemm(const Gemm& g, uint32_t threads) override {
    const size_t m = g.m, n = g.n, k = g.k;
    pthreadpool_t pool = threads_pool(threads);
    if (g.type == Type::kF32) {
      auto l = std::make_shared<LayerF32>(m * k, n * k, n, m * n);
      check(xnn_create_fully_connected_nc_f32(k, n, k, n, l->w.data(), l->bias.data(), -kInfinity, kInfinity, 0, nullptr, &l->op),
            "create");
      check(xnn_reshape_fully_connected_nc_f32(l->op, m, pool), "reshape");
      check(xnn_setup_fully_connected_nc_f32(l->op, l->x.data(), l->y.data()), "set up");
      return run_of(l, pool);
    }
    need_s8(g.type);
    auto l = std::make_shared<LayerS8>(m * k, n * k, n, m * n);
    check(xnn_create_fully_connected_nc_qs8_qc8w(k, n, k, n, kInputZero, kInputScale, l->scales.data(), l->w.data(),
                                                 l->bias.data(), kOutputZero, kOutputScale, -128, 127, 0, nullptr, &l->op),
          "create");
    check(xnn_reshape_fully_connected_nc_qs8_qc8w(l->op, m, pool), "reshape");
    check(xnn_setup_fully_connected_nc_qs8_qc8w(l->op, l->x.data(), l->y.data()), "set up");
    return run_of(l, pool);
  }

  Run conv(const Conv& c, uint32_t threads) override {
    const size_t in = static_cast<size_t>(c.h) * c.w * c.c, out = static_cast<size_t>(c.oh()) * c.ow() * c.oc;
    const size_t per_group = c.c / c.groups, oc = c.oc / c.groups, weights = per_group * c.oc * c.kernel * c.kernel;
    pthreadpool_t pool = threads_pool(threads);
    size_t bytes = 0, oh, ow;
    if (c.type == Type::kF32) {
      auto l = std::make_shared<LayerF32>(in, weights, c.oc, out);
      check(xnn_create_convolution2d_nhwc_f32(c.pad, c.pad, c.pad, c.pad, c.kernel, c.kernel, c.stride, c.stride, 1, 1, c.groups,
                                              per_group, oc, c.c, c.oc, l->w.data(), l->bias.data(), -kInfinity, kInfinity, 0,
                                              nullptr, &l->op),
            "create");
      check(xnn_reshape_convolution2d_nhwc_f32(l->op, 1, c.h, c.w, &bytes, &oh, &ow, pool), "reshape");
      check(xnn_setup_convolution2d_nhwc_f32(l->op, workspace(*l, bytes), l->x.data(), l->y.data()), "set up");
      return run_of(l, pool);
    }
    need_s8(c.type);
    auto l = std::make_shared<LayerS8>(in, weights, c.oc, out);
    check(
        xnn_create_convolution2d_nhwc_qs8_qc8w(c.pad, c.pad, c.pad, c.pad, c.kernel, c.kernel, c.stride, c.stride, 1, 1, c.groups,
                                               per_group, oc, c.c, c.oc, kInputZero, kInputScale, l->scales.data(), l->w.data(),
                                               l->bias.data(), kOutputZero, kOutputScale, -128, 127, 0, nullptr, &l->op),
        "create");
    check(xnn_reshape_convolution2d_nhwc_qs8_qc8w(l->op, 1, c.h, c.w, &bytes, &oh, &ow, pool), "reshape");
    check(xnn_setup_convolution2d_nhwc_qs8_qc8w(l->op, workspace(*l, bytes), l->x.data(), l->y.data()), "set up");
    return run_of(l, pool);
  }

  Run net(const Net& net, uint32_t threads) override {
    const auto graph = tools::load_graph(net.file, {});
    if (!graph) throw std::runtime_error(graph.error().message);
    return make_network(*graph, net.batch, threads_pool(threads));
  }

 private:
  static void need_s8(Type type) {
    if (type != Type::kS8) throw std::runtime_error("XNNPACK's fast 8-bit type is s8");
  }
  template <class L>
  static void* workspace(L& layer, size_t bytes) {
    layer.workspace.resize(bytes + 64);
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(layer.workspace.data()) + 63) / 64 * 64);
  }
  template <class L>
  static Run run_of(const std::shared_ptr<L>& layer, pthreadpool_t pool) {
    return [layer, pool] { check(xnn_run_operator(layer->op, pool), "run"); };
  }
  // Null for one thread.
  pthreadpool_t threads_pool(uint32_t threads) {
    if (threads > 1 && pools_.count(threads) == 0) pools_[threads] = pthreadpool_create(threads);
    return threads > 1 ? pools_[threads] : nullptr;
  }
  std::map<uint32_t, pthreadpool_t> pools_;
};

}  // namespace
}  // namespace lathe::peers

int main() {
  lathe::peers::XnnpackPeer peer;
  return lathe::peers::serve(peer);
}
