#include "pathways/frontend/metrics_page.h"

#include "pathways/http/metrics_text.h"

namespace pw::frontend {

std::string ToMetricsPage(size_t programs, const ServedCounts& counts, const HandlerTable& handlers) {
  http::MetricsText text;
  text.Gauge("pathways_agent_programs", "Programs that are connected to the agent and have a session.")
      .Value(static_cast<double>(programs));
  text.Counter("pathways_agent_programs_total", "Programs that have had a session since the agent started.")
      .Value(static_cast<double>(counts.sessions));
  text.Counter("pathways_agent_requests_total", "Requests of jax's client library that the agent has carried out, by kind.");
  for (size_t kind = 0; kind < counts.requests.size(); ++kind) {
    const Handler* handler = handlers.Find(static_cast<IfrtRequest::RequestCase>(kind));
    if (handler != nullptr) text.Value({{"kind", std::string(handler->name)}}, static_cast<double>(counts.requests[kind]));
  }
  text.Value({{"kind", "unknown"}}, static_cast<double>(counts.requests[0]));
  text.Counter("pathways_agent_request_bytes_total", "Bytes of these requests.").Value(static_cast<double>(counts.request_bytes));
  return text.Take();
}

}  // namespace pw::frontend
