-- The committer's statements; see functions/2_commit.sql.

-- name: commit_batch
SELECT callboard.commit_batch(
    _node => %(node)s, _epoch => %(epoch)s,
    _ack_shard => %(ack_shard)s, _ack_id => %(ack_id)s,
    _created => %(created)s, _actor_expected => %(actor_expected)s,
    _actor_shard => %(actor_shard)s, _actor_address => %(actor_address)s, _actor_kind => %(actor_kind)s,
    _actor_version => %(actor_version)s, _actor_incarnation => %(actor_incarnation)s,
    _actor_status => %(actor_status)s, _actor_reason => %(actor_reason)s, _actor_state => %(actor_state)s,
    _actor_state_version => %(actor_state_version)s, _actor_last_id => %(actor_last_id)s,
    _actor_sent => %(actor_sent)s, _actor_events => %(actor_events)s, _actor_summary => %(actor_summary)s,
    _message_id => %(message_id)s, _message_shard => %(message_shard)s, _message_recipient => %(message_recipient)s,
    _message_sender => %(message_sender)s, _message_lane => %(message_lane)s, _message_type => %(message_type)s,
    _message_version => %(message_version)s, _message_body => %(message_body)s,
    _message_sender_seq => %(message_sender_seq)s, _message_deliveries => %(message_deliveries)s,
    _message_failures => %(message_failures)s, _message_delay_seconds => %(message_delay_seconds)s,
    _message_last_error => %(message_last_error)s, _message_reply_to => %(message_reply_to)s,
    _message_correlation => %(message_correlation)s, _message_causation => %(message_causation)s,
    _message_started => %(message_started)s, _message_sent_by_node => %(message_sent_by_node)s,
    _message_held => %(message_held)s,
    _turn_shard => %(turn_shard)s, _turn_id => %(turn_id)s, _turn_recipient => %(turn_recipient)s,
    _turn_sender => %(turn_sender)s, _turn_type => %(turn_type)s, _turn_lane => %(turn_lane)s,
    _turn_sender_seq => %(turn_sender_seq)s, _turn_version => %(turn_version)s, _turn_outcome => %(turn_outcome)s,
    _turn_causation => %(turn_causation)s, _turn_deliveries => %(turn_deliveries)s, _turn_node => %(turn_node)s,
    _turn_epoch => %(turn_epoch)s,
    _event_shard => %(event_shard)s, _event_address => %(event_address)s, _event_seq => %(event_seq)s,
    _event_type => %(event_type)s, _event_body => %(event_body)s, _event_node => %(event_node)s,
    _rare => %(rare)s::jsonb
)

-- name: misfits
SELECT unit, reason FROM callboard.misfits(%(claims)s::jsonb)
