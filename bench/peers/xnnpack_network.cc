#include "bench/peers/xnnpack_network.h"

#include <algorithm>
#include <map>

#include "runtime/attrs.h"

namespace lathe::peers {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, uint32_t batch) : g_(graph), batch_(batch) {
    check(xnn_create_subgraph(2, 0, &subgraph_), "create subgraph");
    if (g_.inputs().size() != 1 || g_.outputs().size() != 1) throw std::runtime_error("not one input and one output");
  }
  Builder(const Builder&) = delete;
  ~Builder() { xnn_delete_subgraph(subgraph_); }

  void build() {
    for (const NodeId id : g_.order()) add(g_.node(id));
  }
  xnn_subgraph_t subgraph() const { return subgraph_; }
  size_t elems(ValueId v) const {
    size_t n = 1;
    for (const size_t d : dims(v)) n *= d;
    return n;
  }

 private:
  // A constant dim, or the batch.
  std::vector<size_t> dims(ValueId v) const {
    std::vector<size_t> out;
    for (const Dim d : g_.value(v).type.dims) out.push_back(static_cast<size_t>(g_.dims().value(d).value_or(batch_)));
    return out;
  }

  uint32_t value(ValueId v) {
    const auto known = ids_.find(v);
    if (known != ids_.end()) return known->second;
    const bool input = v == g_.inputs()[0], output = v == g_.outputs()[0];
    const uint32_t external = input ? 0 : output ? 1 : XNN_INVALID_VALUE_ID;
    const uint32_t flags = input ? XNN_VALUE_FLAG_EXTERNAL_INPUT : output ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0;
    const std::vector<size_t> d = dims(v);
    const auto& quant = g_.value(v).quant;
    uint32_t id;
    if (quant)
      check(xnn_define_quantized_tensor_value(subgraph_, xnn_datatype_qint8, quant->zero_points[0], quant->scales[0], d.size(),
                                              d.data(), nullptr, external, flags, &id),
            "define value");
    else
      check(xnn_define_tensor_value(subgraph_, xnn_datatype_fp32, d.size(), d.data(), nullptr, external, flags, &id),
            "define value");
    return ids_[v] = id;
  }

  // Weights with one scale per output channel; depthwise ones as [1][kh][kw][c].
  uint32_t weights(ValueId v, bool depthwise) {
    const Value& w = g_.value(v);
    std::vector<size_t> d = dims(v);
    const auto bytes = w.constant.as<int8_t>();
    weights_.emplace_back(bytes.begin(), bytes.end());
    if (depthwise) {
      const size_t channels = d[0], taps = d[1] * d[2];
      for (size_t c = 0; c < channels; ++c)
        for (size_t t = 0; t < taps; ++t) weights_.back()[t * channels + c] = bytes[c * taps + t];
      d = {1, d[1], d[2], channels};
    }
    uint32_t id;
    check(xnn_define_channelwise_quantized_tensor_value(subgraph_, xnn_datatype_qcint8, w.quant->scales.data(), d.size(),
                                                        depthwise ? 3 : 0, d.data(), weights_.back().data(), XNN_INVALID_VALUE_ID,
                                                        0, &id),
          "define weights");
    return id;
  }

  uint32_t bias(ValueId b, ValueId x, ValueId w) {
    if (b == kNoId) return XNN_INVALID_VALUE_ID;
    const auto values = g_.value(b).constant.as<int32_t>();
    biases_.emplace_back(values.begin(), values.end());
    scales_.emplace_back(g_.value(w).quant->scales);
    for (float& s : scales_.back()) s *= g_.value(x).quant->scales[0];
    const size_t n = values.size();
    uint32_t id;
    check(xnn_define_channelwise_quantized_tensor_value(subgraph_, xnn_datatype_qcint32, scales_.back().data(), 1, 0, &n,
                                                        biases_.back().data(), XNN_INVALID_VALUE_ID, 0, &id),
          "define bias");
    return id;
  }

  // A value like the node's result, for what is to be added to a residual.
  uint32_t before_residual(ValueId v) {
    const std::vector<size_t> d = dims(v);
    const Quant& q = *g_.value(v).quant;
    uint32_t id;
    check(xnn_define_quantized_tensor_value(subgraph_, xnn_datatype_qint8, 0, q.scales[0], d.size(), d.data(), nullptr,
                                            XNN_INVALID_VALUE_ID, 0, &id),
          "define value");
    return id;
  }

  void convolution(const Node& n, const Conv2dAttrs& a) {
    const ValueId x = n.inputs[0], w = n.inputs[1], b = n.inputs.size() > 2 ? n.inputs[2] : kNoId;
    const bool residual = n.inputs.size() > 3 && n.inputs[3] != kNoId;
    const auto wd = dims(w);
    const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
    const auto channels = dims(x)[3], groups = static_cast<size_t>(a.groups);
    const bool depthwise = groups == channels && groups > 1;
    const uint32_t y = residual ? before_residual(n.outputs[0]) : value(n.outputs[0]);
    const float lo = residual ? -kInfinity : a.lo, hi = residual ? kInfinity : a.hi;
    const uint32_t xi = value(x), wi = weights(w, depthwise), bi = bias(b, x, w);
    const uint32_t kh = static_cast<uint32_t>(wd[1]), kw = static_cast<uint32_t>(wd[2]);
    if (depthwise)
      check(xnn_define_depthwise_convolution_2d(subgraph_, u(a.pad[0]), u(a.pad[3]), u(a.pad[2]), u(a.pad[1]), kh, kw,
                                                u(a.stride[0]), u(a.stride[1]), u(a.dilation[0]), u(a.dilation[1]),
                                                static_cast<uint32_t>(wd[0] / channels), channels, lo, hi, xi, wi, bi, y, 0),
            "define depthwise");
    else
      check(xnn_define_convolution_2d(subgraph_, u(a.pad[0]), u(a.pad[3]), u(a.pad[2]), u(a.pad[1]), kh, kw, u(a.stride[0]),
                                      u(a.stride[1]), u(a.dilation[0]), u(a.dilation[1]), u(a.groups), channels / groups,
                                      wd[0] / groups, lo, hi, xi, wi, bi, y, 0),
            "define convolution");
    if (residual) addition(y, value(n.inputs[3]), value(n.outputs[0]), a.lo, a.hi);
  }

  void addition(uint32_t a, uint32_t b, uint32_t y, float lo, float hi) {
    const xnn_binary_params limits{static_cast<double>(lo), static_cast<double>(hi)};
    check(xnn_define_binary(subgraph_, xnn_binary_add, &limits, a, b, y, 0), "define addition");
  }

  void add(const Node& n) {
    const uint32_t x = value(n.inputs[0]), y = n.op == Op::kConv2d ? 0 : value(n.outputs[0]);
    const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
    switch (n.op) {
      case Op::kQuantize:
      case Op::kDequantize:
      case Op::kRegrid:
        return check(xnn_define_unary(subgraph_, xnn_unary_convert, nullptr, x, y, 0), "define conversion");
      case Op::kTranspose: {
        const Ints& perm = std::get<PermAttrs>(n.attrs).perm;
        const std::vector<size_t> p(perm.values, perm.values + perm.count);
        return check(xnn_define_static_transpose(subgraph_, p.size(), p.data(), x, y, 0), "define transpose");
      }
      case Op::kConv2d:
        return convolution(n, std::get<Conv2dAttrs>(n.attrs));
      case Op::kAdd: {
        const auto& a = std::get<BinaryAttrs>(n.attrs);
        return addition(x, value(n.inputs[1]), y, a.lo, a.hi);
      }
      case Op::kMaxPool2d: {
        const auto& a = std::get<Pool2dAttrs>(n.attrs);
        return check(xnn_define_max_pooling_2d(subgraph_, u(a.pad[0]), u(a.pad[3]), u(a.pad[2]), u(a.pad[1]), u(a.kernel[0]),
                                               u(a.kernel[1]), u(a.stride[0]), u(a.stride[1]), u(a.dilation[0]), u(a.dilation[1]),
                                               -kInfinity, kInfinity, x, y, 0),
                     "define pooling");
      }
      case Op::kMean: {
        const auto& a = std::get<ReduceAttrs>(n.attrs);
        const std::vector<int64_t> axes(a.axes.values, a.axes.values + a.axes.count);
        return check(xnn_define_static_reduce_v2(subgraph_, xnn_reduce_mean, axes.size(), axes.data(), x, y,
                                                 a.keep_dims ? XNN_FLAG_KEEP_DIMS : 0),
                     "define mean");
      }
      case Op::kReshape: {
        const auto d = dims(n.outputs[0]);
        return check(xnn_define_static_reshape(subgraph_, d.size(), d.data(), x, y, 0), "define reshape");
      }
      case Op::kFullyConnected: {
        const auto& a = std::get<FullyConnectedAttrs>(n.attrs);
        const ValueId b = n.inputs.size() > 2 ? n.inputs[2] : kNoId;
        return check(xnn_define_fully_connected(subgraph_, a.lo, a.hi, x, weights(n.inputs[1], false),
                                                bias(b, n.inputs[0], n.inputs[1]), y, 0),
                     "define fully connected");
      }
      default:
        throw std::runtime_error("node '" + n.name + "' has an operator that is not translated");
    }
  }

  const Graph& g_;
  uint32_t batch_;
  xnn_subgraph_t subgraph_ = nullptr;
  std::map<ValueId, uint32_t> ids_;
  std::vector<std::vector<int8_t>> weights_;
  std::vector<std::vector<int32_t>> biases_;
  std::vector<std::vector<float>> scales_;
};

// What a run needs; the builder's weights must outlive the runtime.
struct Network {
  Network(const Graph& graph, uint32_t batch, pthreadpool_t pool) : builder(graph, batch) {
    builder.build();
    check(xnn_create_runtime_v4(builder.subgraph(), nullptr, nullptr, pool, 0, &runtime), "create runtime");
    x = random_floats(builder.elems(graph.inputs()[0]) + XNN_EXTRA_BYTES);
    y.resize(builder.elems(graph.outputs()[0]) + XNN_EXTRA_BYTES);
    const xnn_external_value external[] = {{0, x.data()}, {1, y.data()}};
    check(xnn_reshape_runtime(runtime), "reshape runtime");
    check(xnn_setup_runtime_v2(runtime, 2, external), "set up runtime");
  }
  ~Network() { xnn_delete_runtime(runtime); }

  Builder builder;
  xnn_runtime_t runtime = nullptr;
  std::vector<float> x, y;
};

}  // namespace

Run make_network(const Graph& graph, uint32_t batch, pthreadpool_t pool) {
  auto network = std::make_shared<Network>(graph, batch, pool);
  return [network] { check(xnn_invoke_runtime(network->runtime), "invoke"); };
}

}  // namespace lathe::peers
