// oneDNN for bench/peers, layers only: primitives with fused requantization, weights in the layout that oneDNN likes best. The
// input's zero point is taken to be folded into the bias, as Lathe does it.
#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/peers/peer.h"

namespace lathe::peers {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

memory::data_type data_type(Type type) {
  if (type == Type::kF32) return memory::data_type::f32;
  return type == Type::kU8 ? memory::data_type::u8 : memory::data_type::s8;
}

class OnednnPeer : public Peer {
 public:
  std::string version() override {
    const dnnl_version_t* v = dnnl_version();
    return "onednn " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  }

  Run gemm(const Gemm& g, uint32_t threads) override {
    omp_set_num_threads(static_cast<int>(threads));
    const auto type = data_type(g.type), weight_type = g.type == Type::kF32 ? type : memory::data_type::s8;
    const auto bias_type = g.type == Type::kF32 ? type : memory::data_type::s32;
    const memory::desc x({g.m, g.k}, type, Tag::ab), w({g.k, g.n}, weight_type, Tag::any), b({1, g.n}, bias_type, Tag::ab),
        y({g.m, g.n}, type, Tag::ab);
    const dnnl::matmul::desc desc(x, w, b, y);
    const dnnl::matmul::primitive_desc pd(desc, attributes(g.type, g.n), engine_);
    return bind(dnnl::matmul(pd), {pd.src_desc(), pd.weights_desc(), pd.bias_desc(), pd.dst_desc()}, threads);
  }

  Run conv(const Conv& c, uint32_t threads) override {
    omp_set_num_threads(static_cast<int>(threads));
    const auto type = data_type(c.type), weight_type = c.type == Type::kF32 ? type : memory::data_type::s8;
    const auto bias_type = c.type == Type::kF32 ? type : memory::data_type::s32;
    const auto i = [](uint32_t v) { return static_cast<memory::dim>(v); };
    const Dims wd = c.groups == 1 ? Dims{i(c.oc), i(c.c), i(c.kernel), i(c.kernel)}
                                  : Dims{i(c.groups), i(c.oc / c.groups), i(c.c / c.groups), i(c.kernel), i(c.kernel)};
    const memory::desc x({1, i(c.c), i(c.h), i(c.w)}, type, Tag::nhwc), w(wd, weight_type, Tag::any),
        b({i(c.oc)}, bias_type, Tag::a), y({1, i(c.oc), i(c.oh()), i(c.ow())}, type, Tag::nhwc);
    const Dims stride = {i(c.stride), i(c.stride)}, pad = {i(c.pad), i(c.pad)};
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, w, b,
                                               y, stride, pad, pad);
    const dnnl::convolution_forward::primitive_desc pd(desc, attributes(c.type, c.oc), engine_);
    return bind(dnnl::convolution_forward(pd), {pd.src_desc(), pd.weights_desc(), pd.bias_desc(), pd.dst_desc()}, threads);
  }

  Run net(const Net&, uint32_t) override { throw std::runtime_error("oneDNN has no networks"); }

 private:
  static dnnl::primitive_attr attributes(Type type, uint32_t channels) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::library);
    if (type == Type::kF32) return attr;
    attr.set_output_scales(1 << 1, std::vector<float>(channels, 1e-3f));
    attr.set_zero_points(DNNL_ARG_DST, 0, {7});
    return attr;
  }
  static void fill(const memory::desc& desc, void* data) {
    if (desc.data_type() == memory::data_type::f32) {
      const std::vector<float> values = random_floats(desc.get_size() / sizeof(float));
      std::memcpy(data, values.data(), values.size() * sizeof(float));
    } else {
      std::memset(data, 3, desc.get_size());
    }
  }
  // Source, weights, bias, destination.
  Run bind(const dnnl::primitive& primitive, const std::vector<memory::desc>& descs, uint32_t threads) {
    std::unordered_map<int, memory> arguments;
    const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
    for (size_t i = 0; i < descs.size(); ++i) {
      memory m(descs[i], engine_);
      fill(descs[i], m.get_data_handle());
      arguments.insert({names[i], m});
    }
    return [this, primitive, arguments, threads] {
      omp_set_num_threads(static_cast<int>(threads));
      primitive.execute(stream_, arguments);
      stream_.wait();
    };
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace
}  // namespace lathe::peers

int main() {
  lathe::peers::OnednnPeer peer;
  return lathe::peers::serve(peer);
}
