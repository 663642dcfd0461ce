// stream_floor: measures a bare gRPC stream in C++ to a floor_server in another process, in chunks of the size of jax's client.
// Both ends discard the bytes. The caller starts each round by a line on standard input, "up" or "down", and gets a JSON line. So
// rounds can take turns with those of other programs. It ends at the end of standard input.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "bench/floor/service.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"

namespace {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace)
using pw::bench::kChunkBytes;

void Up(GrpcIfrtService::Stub& stub, int64_t bytes) {
  grpc::ClientContext context;
  GrpcHostBufferStoreResponse response;
  const auto writer = stub.HostBufferStore(&context, &response);
  GrpcHostBufferStoreRequest chunk;
  chunk.set_data(std::string(kChunkBytes, 'x'));
  for (int64_t sent = 0; sent < bytes; sent += kChunkBytes) PW_CHECK(writer->Write(chunk));
  writer->WritesDone();
  PW_CHECK(writer->Finish().ok());
}

void Down(GrpcIfrtService::Stub& stub, int64_t bytes) {
  grpc::ClientContext context;
  GrpcHostBufferLookupRequest request;
  request.set_handle(bytes);  // the size: see FloorService
  const auto reader = stub.HostBufferLookup(&context, request);
  GrpcHostBufferLookupResponse chunk;
  int64_t received = 0;
  while (reader->Read(&chunk)) received += static_cast<int64_t>(chunk.data().size());
  PW_CHECK(reader->Finish().ok() && received == bytes);
}

}  // namespace

int main(int argc, char** argv) {
  std::string target;
  int mib = 1024;
  pw::Flags flags("stream_floor",
                  "Bytes a second of a bare gRPC stream; reads 'up' and 'down' from standard input, a round each.");
  flags.Add("target", &target, "HOST:PORT", "a floor_server");
  flags.Add("mib", &mib, "N", "MiB of a round");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;

  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), args);
  const auto stub = GrpcIfrtService::NewStub(channel);
  PW_CHECK(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
  const int64_t bytes = int64_t{mib} << 20;
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    line == "up" ? Up(*stub, bytes) : Down(*stub, bytes);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("{\"direction\": \"%s\", \"bytes\": %lld, \"seconds\": %.6f}\n", line.c_str(), static_cast<long long>(bytes),
                seconds);
    std::fflush(stdout);
  }
  return 0;
}
