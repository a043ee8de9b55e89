CREATE FUNCTION valve_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bar    numeric := fleetlog.json(reading.payload) ->> 'bar';
    risk   numeric := response ->> 'risk';
    closed bool    := coalesce((state ->> 'closed')::bool, false);
    valve  text    := replace(reading.device, 'press', 'valve');
BEGIN
    IF bar IS NULL THEN                        -- not a pressure: nothing to decide
        RETURN NULL;
    ELSIF response IS NULL THEN                -- first call, at the reading: ask the model
        RETURN jsonb_build_object('ask', jsonb_build_object('bar', bar));
    ELSIF risk > 0.5 AND NOT closed THEN       -- second call, with its answer
        RETURN jsonb_build_object('decisions', '[{"kind": "close"}]'::jsonb, 'state', '{"closed": true}'::jsonb,
            'commands', jsonb_build_array(jsonb_build_object('device', valve, 'name', 'close', 'payload', jsonb_build_object('bar', bar), 'ttl', '1 min')));
    ELSIF risk <= 0.5 AND closed THEN
        RETURN jsonb_build_object('decisions', '[{"kind": "open"}]'::jsonb, 'state', '{"closed": false}'::jsonb,
            'commands', jsonb_build_array(jsonb_build_object('device', valve, 'name', 'open', 'payload', jsonb_build_object('bar', bar), 'ttl', '1 min')));
    END IF;
    RETURN '{"decisions": [{"kind": "leave"}]}';    -- as it is; also when no model has answered
END $$;
