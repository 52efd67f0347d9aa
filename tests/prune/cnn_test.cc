// Convolutional structures: each is cut to half, and the cut network must compute what the masked one does.
#include <doctest/doctest.h>

#include "prune/networks.h"

namespace lathe::test {
namespace {

struct Structure {
  const char* what;
  void (*build)(Net&);
  const char* groups;
};

const ConvOptions kPointwise{.kernel = 1};

void chain(Net& n) {
  std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
  x = n.node("pool", "MaxPool2d", {x}, "kernel=[2,2], stride=[2,2]");
  n.head(n.block("b", x, 8, 12), 12);
}

std::string residual(Net& n, const std::string& name, const std::string& x, int64_t ic, int64_t oc, int64_t stride) {
  const std::string a = n.block(name + "a", x, ic, oc, {.stride = stride});
  const std::string b = n.batch_norm(name + "b_bn", n.conv(name + "b", a, oc, oc), oc);
  const std::string shortcut = ic == oc ? x : n.conv(name + "p", x, ic, oc, {.kernel = 1, .stride = stride});
  return n.relu(name + "relu", n.node(name + "add", "Add", {b, shortcut}));
}

void resnet(Net& n) {
  std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  x = residual(n, "r1", x, 8, 8, 1);
  x = residual(n, "r2", x, 8, 16, 2);
  n.head(residual(n, "r3", x, 16, 16, 1), 16);
}

// Shortcuts that pad channels with zeros: what lies outside of the old channels is free.
void padded_shortcut(Net& n) {
  const std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 4);
  const std::string b = n.conv("b", n.block("a", x, 4, 8), 8, 8);
  const std::string wide = n.node("wide", "Pad", {x}, "before=[0,0,0,2], after=[0,0,0,2]");
  n.head(n.relu("relu", n.node("add", "Add", {b, wide})), 8);
}

void depthwise(Net& n) {
  const std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  const std::string d = n.block("dw", x, 8, 8, {.groups = 8});
  const std::string m = n.block("dw2", n.block("pw", d, 8, 6, kPointwise), 6, 12, {.groups = 6});
  n.head(n.block("pw2", m, 12, 10, kPointwise), 10);
}

void one_channel(Net& n) {
  const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 64);
  n.head(n.conv("c", n.conv("b", x, 64, 1), 1, 8), 8);
}

void grouped(Net& n) {
  const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 16);
  n.head(n.block("c", n.block("g", x, 16, 24, {.groups = 4, .bias = true}), 24, 8, kPointwise), 8);
}

std::string squeeze_excite(Net& n, const std::string& name, const std::string& x, int64_t channels, int64_t squeezed) {
  const std::string s = n.node(name + "_mean", "Mean", {x}, "axes=[1,2], keep_dims=1");
  const std::string r = n.relu(name + "_relu", n.conv(name + "_down", s, channels, squeezed, {.kernel = 1, .bias = true}));
  const std::string e =
      n.node(name + "_gate", "HardSigmoid", {n.conv(name + "_up", r, squeezed, channels, {.kernel = 1, .bias = true})});
  return n.node(name + "_mul", "Mul", {x, e});
}

void mobilenet_v3(Net& n) {
  const std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  const std::string e = n.node("swish1", "HardSwish", {n.batch_norm("e_bn", n.conv("expand", x, 8, 16, kPointwise), 16)});
  const std::string d =
      n.node("swish2", "HardSwish", {n.batch_norm("d_bn", n.conv("dw", e, 16, 16, {.kernel = 5, .groups = 16}), 16)});
  const std::string p = n.batch_norm("p_bn", n.conv("project", squeeze_excite(n, "se", d, 16, 4), 16, 8, kPointwise), 8);
  n.head(n.node("add", "Add", {p, x}), 8);
}

// Split in two, bottlenecks on the second half, everything concatenated.
void c2f(Net& n) {
  const std::string x = n.block("stem", n.block("in", n.input("x", "f32[N,8,8,3]"), 3, 8), 8, 16, kPointwise);
  const std::string a = n.slice("half1", x, 3, 0, 8), b = n.slice("half2", x, 3, 8, 16);
  const std::string m = n.node("madd", "Add", {n.block("m2", n.block("m1", b, 8, 8), 8, 8), b});
  const std::string all = n.node("cat", "Concat", {a, b, m}, "axis=3");
  n.head(n.block("out", all, 24, 12, kPointwise), 12);
}

void densenet(Net& n) {
  std::string x = n.conv("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  int64_t channels = 8;
  for (const std::string name : {"d1", "d2", "d3"}) {
    const std::string a = n.relu(name + "_relu", n.batch_norm(name + "_bn", x, channels));
    x = n.node(name + "_cat", "Concat", {x, n.conv(name, a, channels, 4)}, "axis=3");
    channels += 4;
  }
  n.head(n.relu("last", n.batch_norm("last_bn", x, channels)), channels);
}

// Height and width are symbols, and five poolings need some of them.
void symbolic_sizes(Net& n) {
  std::string x = n.block("a", n.input("x", "f32[N,H,W,3]"), 3, 8);
  for (int i = 0; i < 5; ++i) x = n.node("pool" + std::to_string(i), "MaxPool2d", {x}, "kernel=[2,2], stride=[2,2]");
  n.head(n.block("b", x, 8, 12), 12);
}

// An ONNX import leaves the transpose before the flatten: channel c is the block of 16 from 16 c.
void flatten_nchw(Net& n) {
  const std::string x = n.block("a", n.input("x", "f32[N,4,4,3]"), 3, 8);
  const std::string f = n.reshape("flat", n.transpose("nchw", x, "0,3,1,2"), {-1, 128});
  n.output(n.linear("fc2", n.relu("r", n.linear("fc1", f, 128, 10)), 10, 3));
}

void flatten_nhwc(Net& n) {
  const std::string x = n.block("a", n.input("x", "f32[N,4,4,3]"), 3, 8);
  n.output(n.linear("fc", n.reshape("flat", x, {-1, 128}), 128, 3));
}

// Linear to 16 channels of 2x2, as blocks of 4; and as a stride of 4.
void unflatten(Net& n) {
  const std::string h = n.relu("r", n.linear("fc", n.input("x", "f32[N,8]"), 8, 64));
  const std::string c = n.transpose("nhwc", n.reshape("image", h, {-1, 16, 2, 2}), "0,2,3,1");
  const std::string w = n.constant("up_w", {6, 2, 2, 16});
  const std::string y = n.node("up", "ConvTranspose2d", {c, w}, "stride=[2,2]");
  n.head(n.block("last", y, 6, 4), 4);
}

void unflatten_nhwc(Net& n) {
  const std::string h = n.relu("r", n.linear("fc", n.input("x", "f32[N,8]"), 8, 64));
  n.head(n.block("last", n.reshape("image", h, {-1, 2, 2, 16}), 16, 4), 4);
}

// A depthwise transposed convolution, channel by channel; slopes of a PRelu; a resize.
void decoder(Net& n) {
  const std::string x = n.block("a", n.input("x", "f32[N,4,4,3]"), 3, 8);
  const std::string w = n.constant("up_w", {8, 2, 2, 1}), slope = n.constant("slope", {1, 1, 8});
  const std::string u = n.node("up", "ConvTranspose2d", {x, w}, "stride=[2,2], groups=8");
  const std::string p = n.node("prelu", "Sub", {n.relu("pos", u), n.node("scaled", "Mul", {u, slope})});
  const std::string r = n.node("resize", "ResizeNearest", {p}, "axis=1, size=12, scale=1.5");
  n.head(n.conv("b", r, 8, 6), 6);
}

const Structure kStructures[] = {
    {"a chain of convolution, normalization, ReLU", chain, "a 8\nb 12\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"residual blocks, with and without projection", resnet,
     "stem 8\nr1a 8\nr2a 16\nr2b 16\nr3a 16\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"a shortcut padded with zero channels", padded_shortcut,
     "stem 4\na 8\nb 4\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"depthwise separable layers of multiplier 1 and 2", depthwise,
     "stem 8\npw 6\npw2 10\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"one output channel is not depthwise", one_channel,
     "a 64\nb 1 frozen: 'b_w' has one channel only\nc 8\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"a grouped convolution", grouped, "a 16 in 4\ng 24 in 4\nc 8\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"MobileNetV3 with squeeze-excite", mobilenet_v3,
     "stem 8\nexpand 16\nse_down 4\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"C2f", c2f, "in 8\nstem 8\nstem#2 8\nm1 8\nout 12\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"DenseNet", densenet, "stem 8\nd1 4\nd2 4\nd3 4\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"symbolic height and width", symbolic_sizes, "a 8\nb 12\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"flatten in NCHW", flatten_nchw, "a 8\nfc1 10\nfc2 3 frozen: output 'fc2' of the graph\n"},
    {"flatten in NHWC", flatten_nhwc, "a 8\nfc 3 frozen: output 'fc' of the graph\n"},
    {"a linear layer reshaped to NCHW before ConvTranspose", unflatten,
     "fc 16\nup 6\nlast 4\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"a linear layer reshaped to NHWC", unflatten_nhwc, "fc 16\nlast 4\nclasses 3 frozen: output 'classes' of the graph\n"},
    {"depthwise transposed convolution, slopes, resize", decoder, "a 8\nb 6\nclasses 3 frozen: output 'classes' of the graph\n"},
};

TEST_CASE("convolutional structures cut to half compute what the masked network does") {
  for (const Structure& s : kStructures) {
    CAPTURE(s.what);
    Net net;
    s.build(net);
    const Graph graph = net.graph();
    const auto groups = groups_of(graph);
    CHECK(described(groups) == s.groups);
    for (const uint32_t seed : {1u, 2u}) {
      const Graph half = proved(graph, groups, random_cuts(groups, 0.5, seed));
      CHECK(parameters(half) < 0.75 * static_cast<double>(parameters(graph)));
    }
  }
}

TEST_CASE("a ratio of 0.99 leaves a channel in every group, and as many in every segment") {
  for (void (*build)(Net&) : {mobilenet_v3, depthwise, grouped, c2f}) {
    Net net;
    build(net);
    const Graph graph = net.graph();
    const auto groups = groups_of(graph);
    const auto cuts = random_cuts(groups, 0.99);
    for (const prune::Cut& cut : cuts) {
      const prune::Group& g = groups[cut.group];
      const size_t segments = g.segment.empty() ? 1 : 1 + *std::max_element(g.segment.begin(), g.segment.end());
      CHECK(g.channels - cut.channels.size() >= segments);
      CHECK((g.channels - cut.channels.size()) % segments == 0);
    }
    proved(graph, groups, cuts);
  }
}

TEST_CASE("cuts that the structure does not allow are refused with the group's name") {
  Net net;
  grouped(net);
  const Graph graph = net.graph();
  const auto groups = groups_of(graph);
  const auto refusal = [&](const std::vector<prune::Cut>& cuts) {
    const auto made = prune::cut(graph, groups, cuts);
    REQUIRE(!made);
    return made.error().message;
  };
  const size_t g = group_named(groups, "g"), c = group_named(groups, "c"), fc = group_named(groups, "classes");
  CHECK(refusal({{g, {0, 1, 2}}}) ==
        "group 'g': 3 channels would go from segment 0 and 0 from segment 1; a grouped layer loses as many of each");
  CHECK(refusal({{c, {0, 1, 2, 3, 4, 5, 6, 7}}}) == "group 'c': no channel would stay of 8");
  CHECK(refusal({{c, {8}}}) == "group 'c': channel 8 is none of its 8");
  CHECK(refusal({{c, {2, 1}}}) == "group 'c': channels to cut are not sorted, or one is there twice");
  CHECK(refusal({{c, {1}}, {c, {2}}}) == "group 'c' is cut twice");
  CHECK(refusal({{fc, {1}}}) == "group 'classes': is frozen: output 'classes' of the graph");
  CHECK(refusal({{9, {1}}}) == "there is no group 9 of 4");
  Net other;
  chain(other);
  CHECK(prune::cut(other.graph(), groups, std::vector<prune::Cut>{}).error().message.find("is of another graph") !=
        std::string::npos);
}

TEST_CASE("shapes after a cut are what was left") {
  Net net;
  grouped(net);
  const Graph graph = net.graph();
  const auto groups = groups_of(graph);
  const Graph cut =
      proved(graph, groups, {{group_named(groups, "a"), {1, 6, 8, 15}}, {group_named(groups, "g"), {0, 7, 13, 23}}});
  CHECK(dims_of(cut, "g_w") == "[20,3,3,3]");
  CHECK(dims_of(cut, "g_b") == "[20]");
  CHECK(dims_of(cut, "c_w") == "[8,1,1,20]");
  CHECK(dims_of(cut, "g_relu") == "[N,8,8,20]");
  CHECK(cut.metadata == graph.metadata);
}

}  // namespace
}  // namespace lathe::test
