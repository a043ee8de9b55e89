-- The roles that fleetlog expects in a cluster.  They are made by the operator and not by CREATE EXTENSION, because
-- roles belong to the whole cluster and outlive the extension.  Harmless when run again.
SELECT 'CREATE ROLE fleetlog_admin NOLOGIN' WHERE to_regrole('fleetlog_admin') IS NULL \gexec
SELECT 'CREATE ROLE fleetlog_ingest NOLOGIN' WHERE to_regrole('fleetlog_ingest') IS NULL \gexec
SELECT 'CREATE ROLE fleetlog_worker LOGIN CONNECTION LIMIT 0' WHERE to_regrole('fleetlog_worker') IS NULL \gexec
