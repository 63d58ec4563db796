-- People who log in: found by name, changed by an admin, never forgotten.

-- name: add_person
INSERT INTO people (id, name, name_key, password_hash, role, created_at, changed_at)
VALUES (:id, :name, :name_key, :password_hash, :role, {now}, {now});

-- name: person_by_name
SELECT * FROM people WHERE name_key = :name_key;

-- name: person_by_id
SELECT * FROM people WHERE id = :id AND removed_at IS NULL;

-- name: person_for_change
SELECT * FROM people WHERE id = :id AND removed_at IS NULL {lock};

-- name: people_after
SELECT * FROM people WHERE name_key > :after ORDER BY name_key LIMIT :limit_count;

-- name: acting_admin
SELECT id FROM people WHERE role = 'admin' AND NOT disabled AND removed_at IS NULL LIMIT 1;

-- name: acting_admins_for_change
SELECT id FROM people WHERE role = 'admin' AND NOT disabled AND removed_at IS NULL ORDER BY id {lock};

-- name: set_person
UPDATE people SET role = :role, disabled = :disabled, password_hash = :password_hash, changed_at = {now} WHERE id = :id;

-- name: set_password_hash
-- The same password, hashed anew; not over one that was changed meanwhile.
UPDATE people SET password_hash = :password_hash WHERE id = :id AND password_hash = :old_hash;

-- name: remove_person
UPDATE people SET removed_at = {now}, changed_at = {now}, name_key = NULL, password_hash = '', disabled = {true}
WHERE id = :id;
