-- Consumers and groups side by side: positions of take() are shown by stat_group, with how far they are behind.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('grp', shards => 2) IS NOT NULL AS made;
SELECT count(*) FROM generate_series(1, 10) i, fleetlog.append('grp', 'k' || i, convert_to('v' || i, 'UTF8'), shard => i % 2);
SELECT count(*) FROM fleetlog.take('shipper', 'grp', 4);
SELECT kind, tenant, role = current_user AS mine, name, filter, stream, sum("position") AS taken, sum(lag) AS lag, members, returned, state, generation
FROM fleetlog.stat_group GROUP BY 1, 2, 3, 4, 5, 6, 9, 10, 11, 12;
SELECT * FROM fleetlog.stat_group_member;

-- Who is not in charge of the server sees neither.
CREATE ROLE regress_grp;
SET ROLE regress_grp;
SELECT * FROM fleetlog.stat_group;
SELECT * FROM fleetlog.stat_group_member;
SELECT * FROM fleetlog._stat_group_member();
RESET ROLE;
SELECT fleetlog.forget_consumer('shipper', 'grp');
SELECT fleetlog.drop_stream('grp');
DROP ROLE regress_grp;
