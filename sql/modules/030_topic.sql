-- MQTT topic filters in SQL, and the partitioner.

CREATE FUNCTION fleetlog.topic_matches_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'fl_sql_topic_support'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.topic_matches_support(internal) IS 'planner support of topic_matches';

CREATE FUNCTION fleetlog.topic_matches(topic text, filter text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'fl_sql_topic_matches'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT fleetlog.topic_matches_support;
COMMENT ON FUNCTION fleetlog.topic_matches(text, text) IS
	'does the MQTT topic filter select the topic; + is one level, # the rest';

CREATE OPERATOR fleetlog.~> (
	LEFTARG = text,
	RIGHTARG = text,
	FUNCTION = fleetlog.topic_matches,
	RESTRICT = matchingsel,
	JOIN = matchingjoinsel
);
COMMENT ON OPERATOR fleetlog.~> (text, text) IS 'topic matches MQTT topic filter';

CREATE FUNCTION fleetlog._partition(key bytea, shards integer) RETURNS integer
	AS 'MODULE_PATHNAME', 'fl_sql_partition'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._partition(bytea, integer) IS
	'shard of a key: Kafka''s default partitioner, murmur2';
