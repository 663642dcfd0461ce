// What the relay costs: the same client against the same server, directly and through a relay on this machine, in one run.
//
// Round trip of one small request; requests a second when the client does not wait (which is how jax sends); bytes a second of
// one host buffer up and down. The server does nothing: it answers and discards.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"
#include "pathways/base/flags.h"
#include "pathways/base/log.h"
#include "pathways/relay/relay.h"

namespace {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace)

constexpr size_t kChunk = 1 << 20;
constexpr uint64_t kSession = 1;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class NullController : public GrpcIfrtService::Service {
 public:
  grpc::Status IfrtSession(grpc::ServerContext* context, grpc::ServerReaderWriter<IfrtResponse, IfrtRequest>* stream) override {
    IfrtRequest request;
    while (stream->Read(&request)) {
      IfrtResponse response;
      response.mutable_response_metadata()->set_op_id(request.request_metadata().op_id());
      if (request.has_init_request()) {
        response.mutable_init_response()->set_session_id(kSession);
      } else {
        response.mutable_check_value_ready_response();
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status HostBufferStore(grpc::ServerContext* context, grpc::ServerReader<GrpcHostBufferStoreRequest>* reader,
                               GrpcHostBufferStoreResponse* response) override {
    GrpcHostBufferStoreRequest chunk;
    while (reader->Read(&chunk)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status HostBufferLookup(grpc::ServerContext* context, const GrpcHostBufferLookupRequest* request,
                                grpc::ServerWriter<GrpcHostBufferLookupResponse>* writer) override {
    GrpcHostBufferLookupResponse chunk;
    chunk.set_data(std::string(kChunk, 'x'));
    for (uint64_t i = 0; i < request->handle(); ++i) writer->Write(chunk);  // the handle says how many
    return grpc::Status::OK;
  }
};

struct Figures {
  double round_trip_p50_us, round_trip_p99_us, requests_per_s, up_gb_per_s, down_gb_per_s;
};

class Client {
 public:
  explicit Client(const std::string& address) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(-1);
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = GrpcIfrtService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
    buffers_ = GrpcIfrtService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
  }

  Figures Measure(int round_trips, int requests, int chunks) {
    grpc::ClientContext context;
    auto stream = stub_->IfrtSession(&context);
    IfrtRequest request;
    IfrtResponse response;
    request.mutable_request_metadata()->set_op_id(1);
    request.mutable_init_request();
    PW_CHECK(stream->Write(request) && stream->Read(&response));
    request.mutable_check_value_ready_request()->add_value_handles(7);

    std::vector<double> times;
    for (int i = 0; i < round_trips; ++i) {
      request.mutable_request_metadata()->set_op_id(i + 2);
      const double start = Seconds();
      PW_CHECK(stream->Write(request) && stream->Read(&response));
      times.push_back((Seconds() - start) * 1e6);
    }
    std::sort(times.begin(), times.end());

    const double start = Seconds();
    std::thread writer([&] {
      for (int i = 0; i < requests; ++i) stream->Write(request);
    });
    for (int i = 0; i < requests; ++i) PW_CHECK(stream->Read(&response));
    writer.join();
    const double rate = requests / (Seconds() - start);
    context.TryCancel();
    stream->Finish();
    return {times[times.size() / 2], times[times.size() * 99 / 100], rate, Up(chunks), Down(chunks)};
  }

 private:
  double Up(int chunks) {
    GrpcHostBufferStoreRequest chunk;
    chunk.set_data(std::string(kChunk, 'x'));
    const double start = Seconds();
    grpc::ClientContext context;
    GrpcHostBufferStoreResponse response;
    auto writer = buffers_->HostBufferStore(&context, &response);
    for (int i = 0; i < chunks; ++i) writer->Write(chunk);
    writer->WritesDone();
    PW_CHECK(writer->Finish().ok());
    return chunks * double{kChunk} / 1e9 / (Seconds() - start);
  }

  double Down(int chunks) {
    const double start = Seconds();
    grpc::ClientContext context;
    GrpcHostBufferLookupRequest request;
    request.set_session_id(kSession);
    request.set_handle(chunks);
    auto reader = buffers_->HostBufferLookup(&context, request);
    GrpcHostBufferLookupResponse chunk;
    while (reader->Read(&chunk)) {
    }
    PW_CHECK(reader->Finish().ok());
    return chunks * double{kChunk} / 1e9 / (Seconds() - start);
  }

  std::unique_ptr<GrpcIfrtService::Stub> stub_, buffers_;
};

std::string Json(const Figures& f) {
  return absl::StrFormat(
      R"({"round_trip_p50_us": %.1f, "round_trip_p99_us": %.1f, "requests_per_s": %.0f, "up_gb_per_s": %.3f, "down_gb_per_s": %.3f})",
      f.round_trip_p50_us, f.round_trip_p99_us, f.requests_per_s, f.up_gb_per_s, f.down_gb_per_s);
}

void Print(const char* name, const Figures& f) {
  std::printf("%-8s round trip %6.1f us (p99 %6.1f)   %8.0f requests/s   up %.2f GB/s   down %.2f GB/s\n", name,
              f.round_trip_p50_us, f.round_trip_p99_us, f.requests_per_s, f.up_gb_per_s, f.down_gb_per_s);
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  int round_trips = 5000, requests = 50'000, mib = 512;
  pw::Flags flags("relay_bench", "What the relay costs: the same traffic directly and through it.");
  flags.Add("json", &json, "PATH", "where to write the figures");
  flags.Add("round-trips", &round_trips, "N", "requests that are waited for");
  flags.Add("requests", &requests, "N", "requests that are not");
  flags.Add("mib", &mib, "N", "size of the host buffer");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;

  NullController controller;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&controller);
  auto server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  auto relay = pw::relay::Relay::Start("127.0.0.1:0", address, "");
  PW_CHECK(relay.ok());

  const Figures direct = Client(address).Measure(round_trips, requests, mib);
  const Figures relayed = Client(absl::StrCat("127.0.0.1:", (*relay)->port())).Measure(round_trips, requests, mib);
  Print("direct", direct);
  Print("relayed", relayed);
  if (!json.empty()) std::ofstream(json) << "{\"direct\": " << Json(direct) << ", \"relayed\": " << Json(relayed) << "}\n";
  relay->reset();
  server->Shutdown();
  return 0;
}
