-- Each database begins with a line `-- database: name`.
-- database: concerts
CREATE TABLE singer (singer_id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER);
CREATE TABLE concert (concert_id INTEGER PRIMARY KEY, title TEXT, year INTEGER, singer_id INTEGER, visitors INTEGER, FOREIGN KEY (singer_id) REFERENCES singer (singer_id));
INSERT INTO singer VALUES (1, 'Ida Holm', 'Norway', 30), (2, 'Paul Roux', 'France', 41), (3, 'Ana Lima', 'Brazil', 25), (4, 'Jean Petit', 'France', 52), (5, 'Kai Berg', 'Norway', 30);
INSERT INTO concert VALUES (1, 'Northern Lights', 2014, 1, 800), (2, 'Rivers', 2015, 2, 1200), (3, 'Open Sky', 2015, 3, 400), (4, 'Late Train', 2016, 2, 950), (5, 'Harbour', 2014, 5, 300);
-- database: shop
CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, name TEXT, phone TEXT, city TEXT);
CREATE TABLE product (product_id INTEGER PRIMARY KEY, title TEXT, price REAL, stock INTEGER);
CREATE TABLE purchase (purchase_id INTEGER PRIMARY KEY, customer_id INTEGER, product_id INTEGER, amount INTEGER, day TEXT, FOREIGN KEY (customer_id) REFERENCES customer (customer_id), FOREIGN KEY (product_id) REFERENCES product (product_id));
INSERT INTO customer VALUES (1, 'Mara', '555-1', 'Bern'), (2, 'Nils', '555-2', 'Oslo'), (3, 'Ona', '555-3', 'Bern'), (4, 'Pia', '555-4', 'Rome');
INSERT INTO product VALUES (1, 'lamp', 40.0, 12), (2, 'chair', 75.5, 0), (3, 'desk', 210.0, 3), (4, 'rug', 60.0, 7);
INSERT INTO purchase VALUES (1, 1, 1, 2, '2024-03-01'), (2, 1, 3, 1, '2024-03-09'), (3, 2, 1, 1, '2024-04-02'), (4, 3, 4, 3, '2024-04-20'), (5, 2, 2, 4, '2024-05-11');
-- database: library
CREATE TABLE author (author_id INTEGER PRIMARY KEY, full_name TEXT, born INTEGER);
CREATE TABLE book (book_id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER, pages INTEGER, language TEXT, FOREIGN KEY (author_id) REFERENCES author (author_id));
INSERT INTO author VALUES (1, 'Vera Stein', 1920), (2, 'Tom Ash', 1955), (3, 'Lena Fox', 1971);
INSERT INTO book VALUES (1, 'Salt', 1, 210, 'German'), (2, 'The Mill', 2, 340, 'English'), (3, 'Moths', 2, 150, 'English'), (4, 'Snowfield', 3, 410, 'English'), (5, 'Glas', 1, 95, 'German');
-- database: school
CREATE TABLE student (student_id INTEGER PRIMARY KEY, first_name TEXT, grade INTEGER, height REAL);
CREATE TABLE course (course_id INTEGER PRIMARY KEY, subject TEXT, teacher TEXT);
CREATE TABLE enrolment (student_id INTEGER, course_id INTEGER, score INTEGER, FOREIGN KEY (student_id) REFERENCES student (student_id), FOREIGN KEY (course_id) REFERENCES course (course_id));
INSERT INTO student VALUES (1, 'Lea', 9, 1.62), (2, 'Max', 10, 1.75), (3, 'Zoe', 9, 1.58), (4, 'Ben', 11, 1.81);
INSERT INTO course VALUES (1, 'maths', 'Kurz'), (2, 'music', 'Adler'), (3, 'biology', 'Kurz');
INSERT INTO enrolment VALUES (1, 1, 88), (1, 2, 93), (2, 1, 71), (3, 3, 64), (4, 1, 95), (4, 3, 80);
