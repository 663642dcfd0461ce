#include "pathways/worker/execute/stacks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "pathways/worker/python/session_python.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;
}  // namespace

struct Stacks::Answer {
  void Add(const std::string& process, std::string text) {
    if (done == nullptr) return;
    text.resize(std::min({text.size(), text.find('\0'), kMostBytes}));
    auto* added = stacks.add_processes();
    added->set_name(process);
    added->set_text(std::move(text));
  }
  void Down() {
    if (--left == 0) End();
  }
  void End() {
    if (Done ended = std::exchange(done, nullptr)) ended(stacks);
  }

  v1::Stacks stacks;
  int left = 1;  // processes that have not answered, and Collect itself
  Done done;     // null once it is answered
};

// Returns a function that takes a process's text, once, on any thread.
Stacks::Told Stacks::Expect(const std::shared_ptr<Answer>& answer, std::string process) const {
  ++answer->left;
  return [strand = parts_.context->strand(), answer, process = std::move(process)](absl::StatusOr<std::string> text) {
    strand->Post([answer, process, text = std::move(text)]() mutable {
      if (text.ok()) answer->Add(process, *std::move(text));
      answer->Down();
    });
  };
}

void Stacks::AskProgram(SessionId session, const std::shared_ptr<Answer>& answer) {
  device::HostCallRequest request;
  request.session = session;
  request.callback = SessionPython::kStacksCallback;
  request.result_bytes = {SessionPython::kStackBytes};
  parts_.calls->Call(
      request, [told = Expect(answer, absl::StrFormat("the program of client %d", session.v))](device::HostCallReply reply) {
        if (!reply.ok()) return told(reply.status());
        told(reply->size() == 1 ? absl::StatusOr<std::string>(std::string((*reply)[0].view()))
                                : absl::InternalError("the answer has no text"));
      });
}

void Stacks::Collect(const v1::StackQuestion& question, Done done) {
  const auto answer = std::make_shared<Answer>();
  answer->done = std::move(done);
  if (parts_.native != nullptr && parts_.threads != nullptr) {
    parts_.threads->Post([native = parts_.native, told = Expect(answer, "the worker")] { told(native()); });
  }
  for (int i = 0; i < std::min(question.sessions_size(), kMostSessions); ++i) {
    const SessionId session(question.sessions(i));
    AskProgram(session, answer);
    // The process tells its text on the strand, so nothing is expected if there is none.
    const auto told = std::make_shared<Told>();
    if (parts_.functions->AskStacks(session, [told](absl::StatusOr<std::string> text) { (*told)(std::move(text)); }))
      *told = Expect(answer, absl::StrFormat("the functions of client %d on this host", session.v));
  }
  if (parts_.timers != nullptr) parts_.timers->After(kPatience, parts_.context->strand(), [answer] { answer->End(); });
  answer->Down();
}

}  // namespace pw::worker
