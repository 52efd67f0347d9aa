#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include "lathe/lathe.h"
#include "lathe/session.h"
#include "runtime/host/model.h"
#include "tests/runtime/sample_file.h"
#include "tests/temp_folder.h"

using namespace lathe;
using lathe::test::FileImage;
using lathe::test::make_file;

namespace {

std::vector<float> expected(const FileImage& file) {
  const auto loaded = load_program({file.data.get(), file.size}, nullptr);
  REQUIRE(loaded.has_value());
  auto session = HostSession::create(*loaded, {kernels::kIsaScalar, 1});
  const Shape shape = test::sample_shape(2);
  REQUIRE((*session)->bind({&shape, 1}).has_value());
  const std::vector<float> x = test::sample_input(2);
  std::vector<float> y(20);
  const void* in = x.data();
  void* out = y.data();
  REQUIRE((*session)->run({&in, 1}, {&out, 1}).has_value());
  return y;
}

}  // namespace

TEST_CASE("the C++ API opens a file, describes it and runs it") {
  const FileImage file = make_file();
  const test::TempFolder folder;
  const std::string path = folder.file("m.lathe");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data.get()), static_cast<std::streamsize>(file.size));
  std::string error;
  const auto model = Model::open(path, &error);
  REQUIRE_MESSAGE(model.has_value(), error);
  REQUIRE(model->inputs().size() == 1);
  CHECK(model->inputs()[0].name == "image");
  CHECK(model->inputs()[0].shape == Shape{{-1, 9, 7, 3}, 4});
  CHECK(model->find_output("scores") == 0u);
  CHECK(!model->find_output("image"));
  auto session = Session::create(*model, {2, ""}, &error);
  REQUIRE_MESSAGE(session.has_value(), error);

  const std::vector<float> x = test::sample_input(2);
  std::vector<float> y(20);
  const void* in = x.data();
  void* out = y.data();
  CHECK(!session->run(&in, &out, &error));
  CHECK(!session->bind({Shape{{2, 9, 7, 1}, 4}}, &error));
  CHECK(error == "input 'image': axis 3 must be 3, got 1");
  REQUIRE(session->bind({test::sample_shape(2)}, &error));
  CHECK(session->output_shape(0) == Shape{{2, 10}, 2});
  REQUIRE(session->run(&in, &out, &error));
  CHECK(y == expected(file));
  CHECK(session->arena_bytes() > 0);
}

TEST_CASE("the C API opens bytes in memory, describes them and runs them") {
  const FileImage file = make_file();
  lathe_error error = {};
  lathe_model* model = lathe_model_from_memory(file.data.get(), file.size, &error);
  REQUIRE_MESSAGE(model != nullptr, error.text);
  CHECK(lathe_model_input_count(model) == 1);
  lathe_tensor_info info;
  REQUIRE(lathe_model_input(model, 0, &info) == 1);
  CHECK(std::string(info.name) == "image");
  CHECK(info.dtype == LATHE_F32);
  CHECK(info.shape.dims[0] == -1);
  CHECK(lathe_model_input(model, 1, &info) == 0);
  const lathe_session_options options = {.threads = 1, .isa = "scalar", .padded_inputs = 0};
  lathe_session* session = lathe_session_create(model, &options, &error);
  REQUIRE(session != nullptr);
  lathe_model_free(model);

  lathe_shape shape = {4, {2, 9, 7, 3}}, out_shape;
  CHECK(lathe_session_output_shape(session, 0, &out_shape) == 0);
  const lathe_shape wrong = {3, {2, 9, 7}};
  CHECK(lathe_session_bind(session, &wrong, 1, &error) == 0);
  CHECK(std::string(error.text) == "input 'image' needs 4 dims, got 3");
  REQUIRE(lathe_session_bind(session, &shape, 1, &error) == 1);
  REQUIRE(lathe_session_output_shape(session, 0, &out_shape) == 1);
  CHECK(out_shape.dims[1] == 10);
  const std::vector<float> x = test::sample_input(2);
  std::vector<float> y(20);
  const void* in = x.data();
  void* out = y.data();
  REQUIRE(lathe_session_run(session, &in, &out, &error) == 1);
  CHECK(y == expected(file));
  in = nullptr;
  CHECK(lathe_session_run(session, &in, &out, &error) == 0);
  lathe_session_free(session);
}

TEST_CASE("the headers and the build agree on the version") {
  CHECK(lathe_version() == LATHE_VERSION);
  CHECK(std::string(LATHE_VERSION_TEXT) == LATHE_PROJECT_VERSION);
  CHECK(std::to_string(LATHE_VERSION_MAJOR) + "." + std::to_string(LATHE_VERSION_MINOR) + "." +
            std::to_string(LATHE_VERSION_PATCH) ==
        LATHE_VERSION_TEXT);
}

TEST_CASE("files that cannot run say why in one sentence") {
  const test::TempFolder folder;
  std::string error;
  CHECK(!Model::open(folder.file("missing.lathe"), &error));
  CHECK(error == folder.file("missing.lathe") + ": no such file or directory");
  std::ofstream(folder.file("empty.lathe"));
  CHECK(!Model::open(folder.file("empty.lathe"), &error));
  CHECK(error == folder.file("empty.lathe") + ": file is empty");
  CHECK(!Model::open(folder.path(), &error));
  const FileImage no_plan = make_file(false);
  CHECK(!Model::from_memory(no_plan.data.get(), no_plan.size, &error));
  CHECK(error == "file has no plan for hosts; `lathe compile` makes one");
  const FileImage file = make_file();
  CHECK(!Model::from_memory(file.data.get() + 8, file.size - 8, &error));
  CHECK(!Model::from_memory(nullptr, 0, &error));
  const auto model = Model::from_memory(file.data.get(), file.size);
  REQUIRE(model.has_value());
  CHECK(!Session::create(*model, {1, "mmx"}, &error));
  CHECK(error.rfind("unknown instruction set 'mmx'", 0) == 0);
}

TEST_CASE("every truncation and changed byte of a compiled file is refused or opens") {
  FileImage file = make_file();
  std::string error;
  for (size_t n = 0; n < file.size; n += n < 600 ? 1 : 97) CHECK(!Model::from_memory(file.data.get(), n, &error));
  int opened = 0;
  for (size_t i = 0; i < file.size; i += 3) {
    file.data[i] ^= 0x41;
    if (const auto model = Model::from_memory(file.data.get(), file.size, &error)) {
      ++opened;
      if (auto session = Session::create(*model, {1, "scalar"}, &error)) session->bind({test::sample_shape(1)}, &error);
    }
    file.data[i] ^= 0x41;
  }
  CHECK(opened > 0);
}
