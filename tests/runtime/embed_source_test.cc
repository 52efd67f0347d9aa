// What `lathe embed` writes; that it compiles and gives the host's outputs is tests/firmware/.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/host/embed.h"
#include "tests/runtime/sample_cnn.h"

using namespace lathe;

namespace {

std::shared_ptr<const LoadedProgram> load() {
  auto built = std::make_shared<test::BuiltProgram>(test::SampleCnn(true).build());
  auto loaded = std::make_shared<LoadedProgram>();
  REQUIRE(built->open(&loaded->program).ok());
  loaded->owner = built;
  loaded->input_names = {"ima\\ge\n"};
  return loaded;
}

}  // namespace

TEST_CASE("generated source names the operators and kernels of the model and no others") {
  const auto loaded = load();
  EmbedOptions options;
  options.name = "net";
  const auto model = embed_program(*loaded, options);
  REQUIRE(model.has_value());
  CHECK(model->header.find("namespace net {") != std::string::npos);
  CHECK(model->header.find("kArenaBytes = " + std::to_string(model->arena_bytes) + ";") != std::string::npos);
  CHECK(model->header.find("{{1, 9, 7, 3}, 4}") != std::string::npos);
  CHECK(model->header.find("'ima?ge?'") != std::string::npos);
  CHECK(model->source.find("lathe::run_Conv2d}") != std::string::npos);
  CHECK(model->source.find("run_Sigmoid") == std::string::npos);
  for (const std::string& kernel : model->kernels) {
    CHECK_MESSAGE(kernel.find("scalar") != std::string::npos, kernel);
    CHECK(model->source.find("lathe::kernels::" + kernel + ")") != std::string::npos);
  }
  CHECK(std::find(model->ops.begin(), model->ops.end(), "Softmax") != model->ops.end());
  CHECK(model->arena_bytes >= model->arena_lower_bound);
  // The biases for u8 storage stay on the host: 16 channels of four layers in s32. 16 bytes come behind the last constant.
  CHECK(model->weight_bytes + 4 * 64 <= loaded->program.weights().size + 16);
}

TEST_CASE("a larger batch takes a larger arena") {
  const auto loaded = load();
  EmbedOptions options;
  const auto one = embed_program(*loaded, options);
  options.shapes = {test::sample_shape(4)};
  const auto four = embed_program(*loaded, options);
  REQUIRE(four.has_value());
  CHECK(four->arena_bytes > 2 * one->arena_bytes);
  CHECK(four->weight_bytes == one->weight_bytes);
}

TEST_CASE("names that are no identifiers and shapes that do not fit are refused") {
  const auto loaded = load();
  EmbedOptions options;
  for (const char* name : {"", "1st", "a-b", "a::b", "a b"}) {
    options.name = name;
    CHECK(embed_program(*loaded, options).error().message == "name '" + std::string(name) + "' is not an identifier");
  }
  options.name = "model";
  options.shapes = {Shape{{1, 9, 7, 4}, 4}};
  CHECK(embed_program(*loaded, options).error().message.find("axis 3 must be 3, got 4") != std::string::npos);
  options.shapes = {test::sample_shape(1), test::sample_shape(1)};
  CHECK(embed_program(*loaded, options).error().message == "model has 1 inputs, got shapes for 2");
}
