// Transformer structures: each is cut to half, heads and all, and must compute what the masked network does.
#include <doctest/doctest.h>

#include <algorithm>

#include "prune/head_blocks.h"
#include "prune/networks.h"

namespace lathe::test {
namespace {

constexpr int64_t kWidth = 16, kTokens = 16, kHeads = 4, kDepth = 4;
const std::string kLast = " frozen: output 'classes' of the graph\n";

// Patches of an image, with positions added: [N, 16, 16].
std::string tokens(Net& n) {
  const std::string p =
      n.conv("patch", n.input("x", "f32[N,8,8,3]"), 3, kWidth, {.kernel = 2, .stride = 2, .padded = false, .bias = true});
  return n.node("embedded", "Add",
                {n.reshape("tokens", p, {-1, kTokens, kWidth}), n.constant("positions", {1, kTokens, kWidth})});
}

// q, k, v: [N, heads, tokens, depth]; the result is [N, tokens, width].
std::string attend(Net& n, const std::string& q, const std::string& k, const std::string& v, int64_t count = kTokens) {
  const std::string scores = n.node("scores", "MatMul", {q, n.transpose("kt", k, "0,1,3,2")});
  const std::string scaled = n.node("scaled", "Mul", {scores, n.constant("scale", {1}, 0.4f, 0.6f)});
  const std::string o = n.node("context", "MatMul", {n.node("attention", "Softmax", {scaled}, "axis=3"), v});
  return n.reshape("joined", n.transpose("back", o, "0,2,1,3"), {-1, count, kWidth});
}

std::string split_heads(Net& n, const std::string& name, const std::string& x, int64_t heads = kHeads, int64_t count = kTokens) {
  return n.transpose(name + "_heads", n.reshape(name + "_split", x, {-1, count, heads, kDepth}), "0,2,1,3");
}

std::string feed_forward(Net& n, const std::string& x) {
  const std::string h = n.node("gelu", "Gelu", {n.linear("fc1", n.layer_norm("ln2", x, kWidth, 2), kWidth, 24)});
  return n.node("mlp", "Add", {x, n.linear("fc2", h, 24, kWidth)});
}

void finish(Net& n, const std::string& x) {
  n.output(n.linear("classes", n.node("mean", "Mean", {n.layer_norm("ln3", x, kWidth, 2)}, "axes=[1], keep_dims=0"), kWidth, 3));
}

void separate_qkv(Net& n) {
  const std::string x = tokens(n), a = n.layer_norm("ln1", x, kWidth, 2);
  std::vector<std::string> parts;
  for (const std::string name : {"q", "k", "v"}) parts.push_back(split_heads(n, name, n.linear(name, a, kWidth, kWidth)));
  const std::string y = n.linear("proj", attend(n, parts[0], parts[1], parts[2]), kWidth, kWidth);
  finish(n, feed_forward(n, n.node("attended", "Add", {x, y})));
}

// One weight for all three, taken apart by an axis of 3 in front.
void packed_qkv(Net& n) {
  const std::string x = tokens(n), a = n.layer_norm("ln1", x, kWidth, 2);
  const std::string packed = n.reshape("packed", n.linear("qkv", a, kWidth, 3 * kWidth), {-1, kTokens, 3, kHeads, kDepth});
  const std::string t = n.transpose("parts", packed, "2,0,3,1,4");
  std::vector<std::string> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    parts.push_back(n.reshape(name, n.slice(name + "_slice", t, 0, i, i + 1), {-1, kHeads, kTokens, kDepth}));
  }
  finish(n, feed_forward(
                n, n.node("attended", "Add", {x, n.linear("proj", attend(n, parts[0], parts[1], parts[2]), kWidth, kWidth)})));
}

// One weight for all three, taken apart by slices of its channels.
void sliced_qkv(Net& n) {
  const std::string x = tokens(n), a = n.linear("qkv", n.layer_norm("ln1", x, kWidth, 2), kWidth, 3 * kWidth);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    parts.push_back(split_heads(n, name, n.slice(name, a, 2, i * kWidth, (i + 1) * kWidth)));
  }
  finish(n, feed_forward(
                n, n.node("attended", "Add", {x, n.linear("proj", attend(n, parts[0], parts[1], parts[2]), kWidth, kWidth)})));
}

// Two key and value heads, each for two query heads.
void grouped_query(Net& n) {
  const std::string x = tokens(n), a = n.layer_norm("ln1", x, kWidth, 2);
  const std::string q = split_heads(n, "q", n.linear("q", a, kWidth, kWidth));
  std::vector<std::string> parts;
  for (const std::string name : {"k", "v"}) {
    const std::string h = split_heads(n, name, n.linear(name, a, kWidth, 8), 2);
    const std::string one = n.reshape(name + "_one", h, {-1, 2, 1, kTokens, kDepth});
    const std::string repeated = n.node(name + "_repeat", "Expand", {one, n.integers(name + "_times", {1, 1, 2, 1, 1})});
    parts.push_back(n.reshape(name + "_all", repeated, {-1, kHeads, kTokens, kDepth}));
  }
  finish(n, feed_forward(n, n.node("attended", "Add", {x, n.linear("proj", attend(n, q, parts[0], parts[1]), kWidth, kWidth)})));
}

// Four neighbours side by side in the channels, a norm over all of them, half as many channels; then attention in windows of
// 2 x 2 with a bias for each head.
void swin(Net& n) {
  const std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  std::vector<std::string> parts;
  for (const int64_t column : {0, 1})
    for (const int64_t row : {0, 1}) {
      const std::string name = "s" + std::to_string(row) + std::to_string(column);
      parts.push_back(n.slice(name, n.slice(name + "_rows", x, 1, row, 8, 2), 2, column, 8, 2));
    }
  const std::string merged = n.layer_norm("merge_ln", n.node("merge", "Concat", parts, "axis=3"), 32, 3);
  const std::string y = n.linear("reduction", merged, 32, kWidth, false);
  const std::string w =
      n.transpose("windows", n.reshape("grid", n.layer_norm("ln1", y, kWidth, 3), {-1, 2, 2, 2, 2, kWidth}), "0,1,3,2,4,5");
  const std::string a = n.reshape("windowed", w, {-1, 4, kWidth});
  const std::string packed = n.reshape("packed", n.linear("qkv", a, kWidth, 3 * kWidth), {-1, 4, 3, kHeads, kDepth});
  const std::string t = n.transpose("parts", packed, "2,0,3,1,4");
  std::vector<std::string> qkv;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    qkv.push_back(n.reshape(name, n.slice(name + "_slice", t, 0, i, i + 1), {-1, kHeads, 4, kDepth}));
  }
  const std::string scores = n.node("scores", "MatMul", {qkv[0], n.transpose("kt", qkv[1], "0,1,3,2")});
  const std::string biased = n.node("biased", "Add", {scores, n.constant("relative", {1, kHeads, 4, 4})});
  const std::string o = n.node("context", "MatMul", {n.node("attention", "Softmax", {biased}, "axis=3"), qkv[2]});
  const std::string joined = n.reshape("joined", n.transpose("back", o, "0,2,1,3"), {-1, 4, kWidth});
  const std::string image = n.transpose(
      "unwindowed", n.reshape("ungrid", n.linear("proj", joined, kWidth, kWidth), {-1, 2, 2, 2, 2, kWidth}), "0,1,3,2,4,5");
  n.head(n.node("attended", "Add", {y, n.reshape("image", image, {-1, 4, 4, kWidth})}), kWidth);
}

// Sizes that the graph computes: the batch and the number of tokens are symbols.
void computed_targets(Net& n) {
  const std::string x = n.linear("in", n.input("x", "f32[N,T,8]"), 8, kWidth);
  const std::string sizes = n.slice("sizes", n.node("shape", "Shape", {x}), 0, 0, 2);
  const std::string apart = n.node("apart", "Concat", {sizes, n.integers("heads", {kHeads, kDepth})}, "axis=0");
  const std::string whole = n.node("whole", "Concat", {sizes, n.integers("width", {kWidth})}, "axis=0");
  std::vector<std::string> parts;
  for (const std::string name : {"q", "k", "v"})
    parts.push_back(
        n.transpose(name + "_heads", n.node(name + "_split", "Reshape", {n.linear(name, x, kWidth, kWidth), apart}), "0,2,1,3"));
  const std::string scores = n.node("scores", "MatMul", {parts[0], parts[1]}, "b_perm=[0,1,3,2]");
  const std::string o =
      n.node("context", "MatMul", {n.node("attention", "Softmax", {scores}, "axis=3"), parts[2]}, "y_perm=[0,2,1,3]");
  const std::string y = n.linear("proj", n.node("joined", "Reshape", {o, whole}), kWidth, kWidth);
  n.output(n.linear("classes", n.node("sum", "Add", {x, y}), kWidth, 3));
}

// Products in Einstein's notation, and a norm that is written out.
void einsum(Net& n) {
  const std::string x = n.linear("in", n.input("x", "f32[N,6,8]"), 8, kWidth);
  const std::string centred = n.node("centred", "Sub", {x, n.node("mu", "Mean", {x}, "axes=[2], keep_dims=1")});
  const std::string variance = n.node("variance", "Mean", {n.node("square", "Mul", {centred, centred})}, "axes=[2], keep_dims=1");
  const std::string deviation =
      n.node("deviation", "Sqrt", {n.node("above", "Add", {variance, n.constant("eps", {1}, 0.001f, 0.002f)})});
  const std::string a = n.node("scaled", "Mul", {n.node("normed", "Div", {centred, deviation}), n.constant("gain", {kWidth})});
  std::vector<std::string> parts;
  for (const std::string name : {"q", "k", "v"})
    parts.push_back(n.reshape(name + "_split", n.linear(name, a, kWidth, kWidth), {-1, 6, kHeads, kDepth}));
  const std::string scores = n.node("scores", "Einsum", {parts[0], parts[1]}, "a=[0,1,2,3], b=[0,4,2,3], y=[0,2,1,4]");
  const std::string o = n.node("context", "Einsum", {n.node("attention", "Softmax", {scores}, "axis=3"), parts[2]},
                               "a=[0,2,1,4], b=[0,4,2,3], y=[0,1,2,3]");
  n.output(n.linear("classes", n.linear("proj", n.reshape("joined", o, {-1, 6, kWidth}), kWidth, 8), 8, 3));
}

// Tokens before batch, batch and heads in one axis of 2 * 4, as PyTorch writes its attention for a fixed batch.
void batch_with_heads(Net& n) {
  const std::string x = n.linear("in", n.input("x", "f32[2,6,8]"), 8, kWidth);
  const std::string packed =
      n.reshape("packed", n.linear("qkv", n.transpose("turned", x, "1,0,2"), kWidth, 3 * kWidth), {6, 2, 3, kWidth});
  const std::string t = n.transpose("parts", packed, "2,0,1,3");
  std::vector<std::string> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    const std::string together = n.reshape(name, n.slice(name + "_slice", t, 0, i, i + 1), {6, 2 * kHeads, kDepth});
    parts.push_back(n.reshape(name + "_heads", n.transpose(name + "_t", together, "1,0,2"), {2, kHeads, 6, kDepth}));
  }
  const std::string scores = n.node("scores", "MatMul", {parts[0], parts[1]}, "b_perm=[0,1,3,2]");
  const std::string o = n.node("context", "MatMul", {n.node("attention", "Softmax", {scores}, "axis=3"), parts[2]});
  const std::string rows = n.reshape("rows", n.transpose("back", o, "2,0,1,3"), {12, kWidth});
  const std::string y = n.transpose("y", n.reshape("apart", n.linear("proj", rows, kWidth, kWidth), {6, 2, kWidth}), "1,0,2");
  n.output(n.linear("classes", n.node("sum", "Add", {x, y}), kWidth, 3));
}

// The same with a batch that is a symbol: an axis of N * 4.
void symbolic_batch_with_heads(Net& n) {
  const std::string x = n.linear("in", n.input("x", "f32[N,6,8]"), 8, kWidth);
  const std::string qkv = n.linear("qkv", n.transpose("turned", x, "1,0,2"), kWidth, 3 * kWidth);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    const std::string together = n.reshape(name, n.slice(name + "_slice", qkv, 2, i * kWidth, (i + 1) * kWidth), {6, -1, kDepth});
    parts.push_back(n.reshape(name + "_heads", n.transpose(name + "_t", together, "1,0,2"), {-1, kHeads, 6, kDepth}));
  }
  const std::string scores = n.node("scores", "MatMul", {parts[0], parts[1]}, "b_perm=[0,1,3,2]");
  const std::string o = n.node("context", "MatMul", {n.node("attention", "Softmax", {scores}, "axis=3"), parts[2]});
  const std::string rows = n.reshape("rows", n.transpose("back", o, "2,0,1,3"), {-1, kWidth});
  const std::string y = n.transpose("y", n.reshape("apart", n.linear("proj", rows, kWidth, kWidth), {6, -1, kWidth}), "1,0,2");
  n.output(n.linear("classes", n.node("sum", "Add", {x, y}), kWidth, 3));
}

struct Structure {
  const char* what;
  void (*build)(Net&);
  std::string groups;
};
const Structure kStructures[] = {
    {"a transformer layer with separate Q, K and V", separate_qkv, "patch 16 averaged\nq 4 heads\nfc1 24\nclasses 3" + kLast},
    {"packed QKV, an axis of 3", packed_qkv, "patch 16 averaged\nqkv 4 heads\nfc1 24\nclasses 3" + kLast},
    {"packed QKV, three slices", sliced_qkv, "patch 16 averaged\nqkv 4 heads\nfc1 24\nclasses 3" + kLast},
    {"two key and value heads for four query heads", grouped_query, "patch 16 averaged\nq 2 heads\nfc1 24\nclasses 3" + kLast},
    {"Swin's patch merging and window attention", swin, "stem 8 averaged\nreduction 16 averaged\nqkv 4 heads\nclasses 3" + kLast},
    {"targets computed from symbolic sizes", computed_targets, "in 16\nq 4 heads\nclasses 3" + kLast},
    {"batch and heads in one axis", batch_with_heads, "in 16\nqkv 4 heads\nclasses 3" + kLast},
    {"a symbolic batch and heads in one axis", symbolic_batch_with_heads, "in 16\nqkv 4 heads\nclasses 3" + kLast},
    {"Einsum and a norm written out", einsum, "in 16 averaged\nq 4 heads\nproj 8\nclasses 3" + kLast},
};

TEST_CASE("transformer structures cut to half compute what the masked network does") {
  for (const Structure& s : kStructures) {
    CAPTURE(s.what);
    Net net;
    s.build(net);
    const Graph graph = net.graph();
    const auto groups = groups_of(graph);
    CHECK(described(groups) == s.groups);
    const auto blocks = prune::find_head_blocks(graph, groups);
    REQUIRE(blocks.size() == 1);
    CHECK(blocks[0].refused == "");
    for (const uint32_t seed : {1u, 2u}) {
      const Graph half = proved(graph, groups, random_cuts(groups, 0.5, seed));
      CHECK(parameters(half) < 0.7 * static_cast<double>(parameters(graph)));
    }
  }
}

TEST_CASE("a head goes with its rows of Q, K and V and its columns of the projection") {
  Net net;
  packed_qkv(net);
  const Graph graph = net.graph();
  const auto groups = groups_of(graph);
  const size_t heads = group_named(groups, "qkv");
  const auto find = [&](const char* value, uint32_t axis) {
    const auto m = std::find_if(groups[heads].members.begin(), groups[heads].members.end(),
                                [&](const prune::Member& x) { return graph.value(x.value).name == value && x.axis == axis; });
    REQUIRE(m != groups[heads].members.end());
    return *m;
  };
  CHECK(find("qkv_w", 0).indices[1] == std::vector<int64_t>{4, 5, 6, 7, 20, 21, 22, 23, 36, 37, 38, 39});
  CHECK(find("qkv_w", 0).role == prune::MemberRole::kOutput);
  CHECK(find("qkv_b", 0).indices[3].size() == 12);
  CHECK(find("proj_w", 1).indices[2] == std::vector<int64_t>{8, 9, 10, 11});
  CHECK(find("proj_w", 1).role == prune::MemberRole::kInput);
  const Graph cut = proved(graph, groups, {{heads, {0, 2, 3}}});
  CHECK(dims_of(cut, "qkv_w") == "[12,16]");
  CHECK(dims_of(cut, "packed") == "[N,16,3,1,4]");
  CHECK(dims_of(cut, "joined") == "[N,16,4]");
}

TEST_CASE("inside heads the depth can go instead: of Q with K, and of V with the projection") {
  Net net;
  separate_qkv(net);
  const Graph graph = net.graph();
  const auto groups = groups_of(graph, {.inner = true});
  CHECK(described(groups) == "patch 16 averaged\nq 4\nv 4\nfc1 24\nclasses 3" + kLast);
  const size_t v = group_named(groups, "v");
  CHECK(groups[v].members[0].indices[1] == std::vector<int64_t>{1, 5, 9, 13});
  proved(graph, groups, random_cuts(groups, 0.5));
}

TEST_CASE("attention and MLP of a layer are branches that can go whole") {
  Net net;
  separate_qkv(net);
  const Graph graph = net.graph();
  const auto branches = prune::find_branches(graph);
  REQUIRE(branches.size() == 2);
  CHECK(branches[0].name == "attended");
  CHECK(branches[1].name == "mlp");
  for (const auto& which : {std::vector{branches[0]}, std::vector{branches[1]}, branches}) {
    const auto removed = prune::remove_branches(graph, which);
    const auto masked = prune::mask_branches(graph, which);
    REQUIRE(removed);
    REQUIRE(masked);
    const auto proof = prune::prove(*masked, *removed);
    REQUIRE(proof);
    CHECK(proof->passed);
    CHECK(parameters(*removed) < parameters(graph));
    const auto groups = groups_of(*removed);
    proved(*removed, groups, random_cuts(groups, 0.5));
  }
}

}  // namespace
}  // namespace lathe::test
