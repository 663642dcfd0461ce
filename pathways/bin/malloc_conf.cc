// What jemalloc reads when a process of ours starts: a thread of its own gives idle memory back to the system. MALLOC_CONF in the
// environment says more.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}
