"""Tests of INFO as monitoring reads it: the fields that redis_exporter turns into metrics exist, are numbers, and change with the
load."""

import re

from support.sockets import Link, receive_until

# The fields that redis_exporter (v1.6x) reads by name, for a single server without scripts, modules and cluster.
NUMBERS = (
    "uptime_in_seconds process_id io_threads_active connected_clients blocked_clients maxclients tracking_clients clients_in_timeout_table "
    "client_recent_max_input_buffer client_recent_max_output_buffer "
    "used_memory used_memory_rss used_memory_peak used_memory_lua used_memory_vm_eval used_memory_scripts_eval used_memory_overhead "
    "used_memory_startup used_memory_dataset used_memory_vm_functions used_memory_scripts used_memory_functions used_memory_vm_total "
    "number_of_cached_scripts number_of_functions number_of_libraries maxmemory mem_fragmentation_ratio mem_fragmentation_bytes "
    "mem_clients_slaves mem_clients_normal mem_cluster_links mem_aof_buffer mem_replication_backlog mem_not_counted_for_evict "
    "mem_total_replication_buffers total_system_memory allocator_active allocator_allocated allocator_resident allocator_frag_ratio "
    "allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes rss_overhead_ratio rss_overhead_bytes lazyfree_pending_objects "
    "active_defrag_running "
    "loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_time_sec "
    "rdb_current_bgsave_time_sec rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled aof_rewrite_in_progress "
    "aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_cow_size aof_current_size module_fork_in_progress "
    "module_fork_last_cow_size current_cow_peak current_cow_size current_cow_size_age current_fork_perc current_save_keys_processed "
    "current_save_keys_total "
    "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes "
    "total_net_repl_input_bytes total_net_repl_output_bytes rejected_connections sync_full sync_partial_ok sync_partial_err expired_keys "
    "expired_stale_perc expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients "
    "total_eviction_exceeded_time current_eviction_exceeded_time keyspace_hits keyspace_misses pubsub_channels pubsub_patterns "
    "pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits "
    "active_defrag_misses active_defrag_key_hits active_defrag_key_misses tracking_total_keys tracking_total_items tracking_total_prefixes "
    "unexpected_error_replies total_error_replies dump_payload_sanitizations total_reads_processed total_writes_processed "
    "io_threaded_reads_processed io_threaded_writes_processed client_query_buffer_limit_disconnections "
    "client_output_buffer_limit_disconnections reply_buffer_shrinks reply_buffer_expands acl_access_denied_auth total_active_defrag_time "
    "current_active_defrag_time "
    "connected_slaves master_repl_offset second_repl_offset repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset "
    "repl_backlog_histlen "
    "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread used_cpu_user_main_thread "
    "cluster_enabled "
).split()
WORDS = {"redis_version": r"7\.\d+\.\d+", "redis_mode": "standalone", "role": "master", "rdb_last_bgsave_status": "ok|err",
         "aof_last_bgrewrite_status": "ok|err", "aof_last_write_status": "ok|err", "maxmemory_policy": "noeviction", "run_id": "[0-9a-f]{40}",
         "os": ".+", "tcp_port": r"\d+", "master_replid": "[0-9a-f]{40}", "used_memory_human": r"[\d.]+[BKMGT]"}  # fmt: skip


def raw_info(server, *sections):
    with Link(server.port) as link:
        return link.call("INFO", *sections)


def fields(server, *sections):
    return dict(line.split(":", 1) for line in raw_info(server, *sections).split("\r\n") if ":" in line and not line.startswith("#"))


def test_info_has_every_field_that_an_exporter_reads(server):
    found = fields(server, "ALL")
    assert [name for name in NUMBERS if name not in found] == []
    assert [(name, found[name]) for name in NUMBERS if not re.fullmatch(r"-?\d+(\.\d+)?", found[name])] == []
    assert [(name, found.get(name)) for name, form in WORDS.items() if not re.fullmatch(form, found.get(name, ""))] == []


def test_info_fields_that_an_exporter_reads_change_with_the_load(server):
    client = server.client()
    client.flushall()
    client.execute_command("CONFIG", "RESETSTAT")
    before = fields(server)
    client.set("k", "v")
    client.get("k")
    client.get("none")
    listener = client.pubsub()
    listener.subscribe("news")
    listener.get_message(timeout=10)
    tracker = server.connect()
    tracker.sendall(b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET k\r\n")
    receive_until(tracker, b"$1\r\nv\r\n")
    after = fields(server)
    assert int(after["keyspace_hits"]) - int(before["keyspace_hits"]) == 2
    assert int(after["keyspace_misses"]) - int(before["keyspace_misses"]) == 1
    assert int(after["total_commands_processed"]) > int(before["total_commands_processed"])
    assert (after["pubsub_channels"], after["tracking_clients"], after["tracking_total_keys"]) == ("1", "1", "1")
    assert re.fullmatch(r"keys=1,expires=\d+,avg_ttl=\d+", after["db0"]), after["db0"]
    found = fields(server, "COMMANDSTATS")
    assert re.fullmatch(r"calls=1,usec=\d+,usec_per_call=[\d.]+,rejected_calls=0,failed_calls=0", found["cmdstat_set"])
    assert re.fullmatch(r"p50=[\d.]+,p99=[\d.]+,p99.9=[\d.]+", fields(server, "LATENCYSTATS")["latency_percentiles_usec_get"])
    tracker.close()
    listener.close()


def test_info_sections_have_the_order_of_redis_and_can_be_chosen(server):
    everything = re.findall(r"^# (\w+)", raw_info(server, "EVERYTHING"), re.M)
    assert everything[:6] == ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication"]
    assert {"CPU", "Modules", "Commandstats", "Errorstats", "Latencystats", "Cluster", "Keyspace"} <= set(everything)
    assert re.findall(r"^# (\w+)", raw_info(server, "cpu", "SERVER"), re.M) == ["Server", "CPU"]
    assert raw_info(server, "nosuch") == ""
