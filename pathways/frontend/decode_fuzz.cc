// Fuzzes session streams of a hostile client. Each input is a list of messages, each after its length in two bytes. All run in one
// initialized session of a cluster without workers.
#include <cstdint>
#include <memory>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/testing/fake_cluster.h"

namespace {

class Sink final : public pw::frontend::ResponseSink {
 public:
  void Write(pw::frontend::IfrtResponse response) override {
    // Every answer has either an error or a payload, never both: a client fails on anything else.
    const bool ok = response.response_metadata().status().code() == 0;
    if (ok != (response.response_case() != pw::frontend::IfrtResponse::RESPONSE_NOT_SET)) __builtin_trap();
    ++answers;
  }
  int answers = 0;
};

// File operations run on the only thread; no input can name a file.
class Inline final : public pw::Executor {
 public:
  void Post(pw::Task task) override { std::move(task)(); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const pw::frontend::HandlerTable handlers;
  pw::frontend::testing::FakeCluster cluster;
  pw::frontend::SessionTable table;
  Sink sink;
  static Inline files;
  static pw::SteadyClock clock;
  static const pw::frontend::PluginServices services{pw::storage::Roots("", ""), &files, &clock};
  auto session = std::make_shared<pw::frontend::ClientSession>(&cluster, &table, &services, pw::frontend::SessionHello{}, &sink);
  pw::frontend::IfrtRequest init;
  init.mutable_init_request();
  session->Run(pw::frontend::Decode(handlers, init));
  int requests = 1;
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    pw::frontend::IfrtRequest request;
    if (request.ParseFromArray(data + 2, static_cast<int>(length))) {
      session->Run(pw::frontend::Decode(handlers, request));
      ++requests;
    }
    data += 2 + length;
    size -= 2 + length;
  }
  cluster.RunAll();
  if (sink.answers > requests) __builtin_trap();
  session->End();
  return 0;
}
