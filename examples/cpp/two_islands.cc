// A C++ program on a cluster, without Python and gRPC: it uses only pathways/client. It compiles a StableHLO program for one
// device in each of two islands. It runs the second executable on the result of the first, and reads the result.
//
//   pathways-controller --listen-clients unix:clients.sock ...      and workers of two islands
//   two_islands unix:clients.sock
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/client/client.h"

namespace {

using pw::client::Array;

constexpr char kDoubled[] = R"(
module @doubled {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// Returns the first device of each island.
std::map<std::string, pw::DeviceId> FirstOfIslands(const pw::session::ClusterInfo& cluster) {
  std::map<std::string, pw::DeviceId> first;
  for (const auto& device : cluster.devices) first.try_emplace(device.string_attributes.at("island"), device.id);
  return first;
}

absl::StatusOr<pw::client::Executable> Compile(pw::client::Client& client, pw::DeviceId device) {
  pw::session::CompileRequest request;
  request.format = "mlir";
  request.program = pw::Bytes::FromString(kDoubled);
  request.devices = {device};
  return pw::Await(client.Compile(std::move(request)));
}

absl::Status Run(const pw::client::Client::Options& options) {
  PW_ASSIGN_OR_RETURN(auto client, pw::client::Client::Connect(options));
  const auto islands = FirstOfIslands(client->cluster());
  if (islands.size() < 2) return absl::FailedPreconditionError("this example wants a cluster of two islands");
  const pw::DeviceId here = islands.begin()->second, there = std::next(islands.begin())->second;
  PW_ASSIGN_OR_RETURN(const auto doubled_here, Compile(*client, here));
  PW_ASSIGN_OR_RETURN(const auto doubled_there, Compile(*client, there));

  const std::vector<float> values = {1, 2, 3, 4};
  const pw::buffers::ArraySpec spec{pw::buffers::DType::kF32, {4}, pw::buffers::Sharding::SingleDevice(here, "")};
  const Array x =
      client->Put(spec, pw::Bytes::Copy({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  // None of these calls waits: each takes the future result of the one before.
  const std::vector<Array> y = client->Execute(doubled_here, {&x});
  const Array moved = client->Copy(y[0], {there});
  const std::vector<Array> z = client->Execute(doubled_there, {&moved});
  PW_ASSIGN_OR_RETURN(const pw::Bytes bytes, pw::Await(client->Fetch(z[0])));

  std::vector<float> result(bytes.size() / sizeof(float));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  std::printf("%s\n", absl::StrJoin(result, " ").c_str());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr,
                 "usage: two_islands ADDRESS [TOKEN_FILE]    where a controller listens for clients: unix:PATH, or HOST:PORT and "
                 "a user's token file\n");
    return 2;
  }
  pw::client::Client::Options options;
  options.controller = argv[1];
  options.description = "two_islands";
  if (argc == 3) options.credentials.token_file = argv[2];
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "two_islands: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
